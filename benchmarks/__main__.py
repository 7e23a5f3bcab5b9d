"""Every benchmark, one after the other."""

from __future__ import annotations

from benchmarks import bench_gpt, bench_learner, bench_losses, bench_pipeline, bench_report, bench_workers

if __name__ == "__main__":
    bench_pipeline.main()
    bench_learner.main()
    bench_losses.main()
    bench_gpt.main()
    bench_workers.main()
    bench_report.main()
