"""`sparecraft tune`: the replicator of sPARE (Alg. 1) on a fleet that runs. Begin with walk.py."""
