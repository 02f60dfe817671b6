/** What the checks of the page System found. */
export const systemSentences = {
  'system.durability': 'a crash loses no committed charge',
  'system.role.one': 'one role owns the tables and serves requests; two roles are safer',
  'system.role.functions': 'the role that serves requests may create functions next to those of the ledger',
  'system.role': 'the role that serves requests cannot rewrite the ledger',
  'system.clock': 'this node and PostgreSQL differ by {seconds} s',
  'system.jobs': 'no job is late',
  'system.backups.none': 'no backup is known',
  'system.backups.failed': 'the last scheduled backup failed: {reason}',
  'system.backups.last': 'the last backup began at {at}',
  'system.backups.untested': 'no backup was restored as a test',
  'system.backups.tested': '{name} was restored as a test',
  'system.backups.unrestorable': '{name} could not be restored: {reason}',
  'jobs.none_scheduled': 'No node has added scheduled jobs for {seconds} s. Check the log of the nodes.',
  'jobs.late': 'The job {task} has been due for {seconds} s, and no node has taken it. Check the log of the nodes.',
} as const
