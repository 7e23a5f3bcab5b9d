"""What happened, and when: the one vocabulary that simulated and real runs both write.

Four columnar tables, kept as Parquet beside a run's `config.json` and `meta.json`. schemas: their columns.
recorder: takes rows while the run lasts, and ends in a log. log: the tables, which can be written, read back
and fingerprinted. Neither SimPy nor torch is imported.
"""

from simulator.eventlog.log import EventLog
from simulator.eventlog.recorder import Recorder, Row
from simulator.eventlog.schemas import EPISODES, INTERVALS, ROLLOUTS, SCHEMAS, SEGMENTS, UPDATES

__all__ = [
    "EPISODES",
    "INTERVALS",
    "ROLLOUTS",
    "SCHEMAS",
    "SEGMENTS",
    "UPDATES",
    "EventLog",
    "Recorder",
    "Row",
]
