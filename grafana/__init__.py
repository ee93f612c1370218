"""Grafana dashboards and provisioning as code."""
