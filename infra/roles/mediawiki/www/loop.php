<?php
// PCRAFT's dynamic workload (section V.B): an empty loop of 10^3 turns.
for ($turn = 0; $turn < 1000; $turn++) {
}
echo "<!DOCTYPE html><title>$turn turns</title>\n";
