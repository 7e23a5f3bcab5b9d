"""What answers for reasoning-gym, in its process: a question a line on stdin, an answer a line on stdout."""

from __future__ import annotations

import json
import os
import sys
from functools import lru_cache
from typing import Any, Final

_AT_ONCE: Final = 1000
"""Problems of a data set; some data sets prepare all of theirs at once."""
_SEEDS: Final = 2**32


def main(told: dict[str, Any]) -> None:
    """Serve until stdin closes."""
    # Only answers go to stdout, whatever the library prints.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    @lru_cache(maxsize=4)
    def dataset(part: int) -> Any:
        import reasoning_gym

        # Most data sets add a problem's place to the seed: so problems of two parts never share one.
        seed = (told["seed"] * 2654435761 + part * _AT_ONCE) % _SEEDS
        return reasoning_gym.create_dataset(
            told["dataset"], **{"size": _AT_ONCE, "seed": seed} | told["settings"]
        )

    @lru_cache(maxsize=4096)
    def entry(number: int) -> Any:
        part, place = divmod(number, _AT_ONCE)
        return dataset(part)[place]

    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "question" in asked:
                answer = {"is": entry(asked["question"])["question"]}
            else:
                number = asked["score"]
                judge = dataset(number // _AT_ONCE)
                answer = {"is": float(judge.score_answer(answer=asked["answer"], entry=entry(number)))}
        except Exception as error:  # of foreign code, whatever it is
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
