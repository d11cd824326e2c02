"""What the commands refuse: with one line, an exit code, and no traceback."""

import subprocess

import pytest

from commands import COMMAND, call, houses, refused, write

QUICK = ("--n-iter", "20", "--n-alphas", "3", "--no-plots")


def text(folder, content, name="d.csv"):
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


ROWS = "".join(f"{k},{k % 7},{k % 3 + k}\n" for k in range(40))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "empty"),
        ("a,b,y\n" + ROWS + "1,,3\n", "1 value is missing"),
        ("a,b,y\n" + ROWS + "1,2,zwölf\n", "'zwölf'"),
        ("a,b,y\n" + ROWS + "1,2,inf\n", "not finite"),
        ("a,b,y\n" + "1,2,3\n" * 30, "a target must vary"),
        ("a,b,z\n" + ROWS, "unknown column 'y'"),
        (b"\xff\xfeabc", "not encoded as UTF-16; use another --encoding"),
        ("a,b,y\n" + "1,2,1e300\n1,3,-1e300\n1,4,0\n" * 20, "rescale"),
        ("a,b,y\n1,2,3\n2,3,4\n3,5,6\n", "at least 10"),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("command", ["fit", "tune", "compare"])
def test_data_that_cannot_be_used(command, content, said, tmp_path):
    file = text(tmp_path, content)
    line = refused(command, file, "--target", "y", "--out", tmp_path / "o", *QUICK)
    assert said in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit"], "FILE"),
        (["fit", "d.csv"], "--target"),
        (["fit", "d.csv", "--target", "y", "--loss", "best"], "'best' is not one of"),
        (["fit", "d.csv", "--target", "y", "--penalty", "l2"], "'l2' is not one of"),
        (
            ["fit", "d.csv", "--target", "y", "--loss", "lad", "--loss", "huber"],
            "--loss is given more than once; use steinpath tune or compare for several",
        ),
        (["fit", "d.csv", "--target", "y", *2 * ("--penalty", "ridge")], "--penalty is given more"),
        (["fit", "d.csv", "--target", "y", "--n-iter", "0"], "--n-iter"),
        (["fit", "d.csv", "--target", "y", "--n-iter", "9" * 13], "--n-iter"),
        (["fit", "d.csv", "--target", "y", "--n-alphas", "9" * 13], "--n-alphas"),
        (["fit", "d.csv", "--target", "y", "--quantile", "1"], "--quantile"),
        (["fit", "d.csv", "--target", "y", "--quantile", "0.5", "--loss", "lad"], "--quantile"),
        (["fit", "d.csv", "--target", "y", "--seed", "-1"], "--seed"),
        (["fit", "d.csv", "--target", "y", "--quantile", "nan"], "--quantile"),
        (["fit", "d.csv", "--target", "y", "--delta", "inf"], "--delta"),
        (["fit", "d.csv", "--target", "y", "--gamma", "nan"], "--gamma"),
        (["predict", "model.json", "d.csv", "--out", ""], "--out"),
        (["fit", "d.csv", "--target", "y", "--colour"], "--colour"),
        (["tune", "d.csv", "--target", "y", "--gamma", "1"], "--gamma"),
        (["compare", "d.csv", "--target", "y", "--rule", "two"], "--rule"),
        (["fit", "d.csv", "--target", "y", "--group", "a", "--time", "b"], "--group and --time"),
        (["tune", "d.csv", "--target", "y", "--gap", "3"], "--gap requires --time"),
        (["compare", "d.csv", "--target", "y", "--time", "b", "--gap", "-1"], "--gap"),
        (["predict", "model.json"], "FILE"),
        (["demo", "--plot", "x.jpg"], ".png, .pdf, .svg"),
        (["bench", "--n", "1"], "--n"),
        (["fly"], "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_command_lines(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text(tmp_path, "a,b,y\n" + ROWS)
    assert said in refused(*arguments, code=2)


@pytest.mark.parametrize("command", ["fit", "tune", "compare", "predict"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.csv", "No such file"),
        (".", "without a file that ends with .parquet"),
        ("d.xlsx", "extension"),
        ("d.parquet", "cannot read"),
        ("d.npz", "cannot read"),
        ("d.csv.gz", "cannot read"),
    ],
)
def test_files_that_cannot_be_read(command, name, said, tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    if name.startswith("d."):
        text(tmp_path, b"PK\x03\x04 not really", name)
    arguments = [model, name] if command == "predict" else [name, "--target", "y", *QUICK]
    assert said in refused(command, *arguments)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    call("fit", write(folder), "--target", "price", "--out", folder / "o", *QUICK)
    return folder / "o" / "model.json"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop(columns="town"), "'town'"),
        (lambda t: t.assign(rooms="many"), "'many'"),
        (lambda t: t.assign(rooms=[None, *t["rooms"][1:]]), "1 value is missing"),
    ],
    ids=["a column too few", "a word for a number", "a missing value"],
)
def test_new_rows_that_do_not_fit_the_model(change, said, tmp_path, model):
    assert said in refused("predict", model, write(tmp_path, table=change(houses())))


def test_new_levels_are_counted(tmp_path, model):
    result = call("predict", model, write(tmp_path, table=houses().assign(town="Berlin")))
    assert "Note: column 'town' has 120 values" in result.stderr


def test_a_closed_pipe_is_no_error_to_talk_about(tmp_path, model):
    file = write(tmp_path, table=houses(20_000))
    command = [*COMMAND, "predict", str(model), str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_nothing_is_left_of_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused("fit", "nowhere.csv", "--target", "y", *QUICK)
    assert not list(tmp_path.iterdir())


def test_nobody_to_print_to(tmp_path):
    file = write(tmp_path)
    command = [*COMMAND, "fit", file, "--target", "price", "--out", tmp_path / "o", *QUICK]
    quoted = " ".join(map(str, command)) + " >&-"
    result = subprocess.run(["bash", "-c", quoted], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "o" / "model.json").exists()
