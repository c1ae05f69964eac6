"""From the settings of generate to what decodes."""

from experiments.cluster.place import ClusterSession
from experiments.decoding.batching import read_together
from experiments.decoding.job import decode
from experiments.decoding.session import Session, load_pair
from experiments.drafting.paths import along_paths
from experiments.proving.mistakes import committing, in_its_rule
from experiments.proving.own import deciding


def session_of(settings, output):
    """The Session of these settings, its models here or on a cluster. Raises InputError."""
    if output.cluster:
        return ClusterSession(settings, output.cluster, output.download)
    rounds, more = decode, None
    if settings.mistake:
        settings, rounds = in_its_rule(settings), committing(settings.mistake, decode)
    if settings.paths > 1:
        paths = along_paths(settings.paths, read_together)
        rounds = lambda target, draft, job, _: decode(target, draft, job, paths)
    if settings.rule:
        rounds, more = deciding(settings.rule, settings.verification)
    return Session(settings, load_pair(settings, output.download), rounds, more)
