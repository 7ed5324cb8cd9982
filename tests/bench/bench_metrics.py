"""What a scrape costs: CPU time of rendering /metrics with every container's series, in one process."""

from __future__ import annotations

import time

from agent.metrics.agent_series import Metrics
from agent.metrics.container_series import ContainerSeries


def made_up_rows(containers: int) -> tuple[ContainerSeries, ...]:
    """Return rows with every figure known, names as long as they usually are and values that move between pages."""
    return tuple(
        ContainerSeries(
            labels=(f"team-{index % 20}", f"checkout-service-7c9d8f6b5d-x{index:04d}", f"server-{index % 3}"),
            usage_p75_millicores=index * 1.2345678 + 0.1,
            usage_peak_millicores=index * 2.3456789 + 0.2,
            working_set_p75_bytes=(100 << 20) + index * 4096,
            working_set_peak_bytes=(150 << 20) + index * 4096,
            waiting_usec_total=123_456_789 + index * 1013,
            throttled_usec_total=3_456_789 + index * 17,
            cpu_request_millicores=250 + index % 7,
            cpu_limit_millicores=1000,
            memory_request_bytes=256 << 20,
            memory_limit_bytes=512 << 20,
        )
        for index in range(containers)
    )


def render_cpu_ms(containers: int = 1000, pages: int = 15) -> dict[str, float]:
    """Render a page several times and give the median CPU time.

    Returns:
        ``metrics_render_cpu_ms_<n>``: one page as plain text, self series included; ``metrics_render_gzip_cpu_ms_<n>``:
        the same and compressed; ``metrics_page_kib_<n>`` and ``metrics_page_series_<n>``.
    """
    metrics = Metrics(version="0.0.0", commit="bench", sampler="native", per_container=True, max_series=1_000_000)
    metrics.publish_containers(made_up_rows(containers))
    metrics.page()  # label strings are cached from the first page on

    def median_ms(accept_encoding: str) -> float:
        times = []
        for _ in range(pages):
            before = time.process_time()
            metrics.page(accept_encoding=accept_encoding)
            times.append((time.process_time() - before) * 1e3)
        return sorted(times)[len(times) // 2]

    body = metrics.page().body
    return {
        f"metrics_render_cpu_ms_{containers}": round(median_ms(""), 2),
        f"metrics_render_gzip_cpu_ms_{containers}": round(median_ms("gzip"), 2),
        f"metrics_page_kib_{containers}": round(len(body) / 1024, 1),
        f"metrics_page_series_{containers}": float(sum(not line.startswith(b"#") for line in body.splitlines())),
    }


if __name__ == "__main__":
    for count in (0, 250, 1000):
        print(render_cpu_ms(count))
