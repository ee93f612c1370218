#!/usr/bin/env bash
exec python3 /opt/sparecraft/role/service.py
