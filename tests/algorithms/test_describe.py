"""The table of compositions is what the catalogue says, and every piece in it has a name."""

from algorithms.describe import END, README, START, pieces, table, write
from algorithms.grpo import grpo
from algorithms.piece import called, piece
from algorithms.sao import sao


def test_the_readme_holds_the_table_of_the_catalogue():
    """If not: python -m algorithms.describe."""
    text = README.read_text()
    assert text[text.index(START) + len(START) : text.index(END)].strip() == table()


def test_writing_replaces_what_is_between_the_marks_and_nothing_else(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    write(page)
    assert page.read_text() == f"before\n{START}\n{table()}\n{END}\nafter\n"


def test_every_piece_is_called_by_what_made_it():
    for nameless in ("surrogate", "adapt", "correct", "compose", "rule", "reduce", "lambda"):
        assert f"`{nameless}" not in table()
        assert f" {nameless}" not in table()


def test_pieces_of_grpo_and_sao():
    found = pieces(grpo())
    assert found["trust region"] == "ppo_clip(0.2, 0.28)"
    assert found["aggregate"] == "sequence_mean"
    assert found["more"] == ""
    assert "length_adaptive(1.5)" in pieces(sao())["advantage"]
    assert pieces(sao())["more"] == "critic: K = 2"


def test_a_piece_is_named_with_its_arguments():
    @piece
    def _shifted(by, *, of=abs):
        return lambda x: of(x) + by

    made = _shifted(0.5, of=round)
    assert called(made) == "shifted(0.5, of=round)"
    assert made(1.2) == 1.5
    assert called(_shifted(2)) == "shifted(2)"
    assert called((1.0, made)) == "(1, shifted(0.5, of=round))"
