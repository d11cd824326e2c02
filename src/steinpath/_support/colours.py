"""Colours of all plots: the colour-blind-safe palette of Okabe and Ito (2008)."""

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#E69F00", "#000000"
