/** How a crash can lose charges with the settings of PostgreSQL. */
export const durabilitySentences = {
  'durability.fsync':
    'fsync is off: a crash of the machine can lose charges or make the database unreadable. Set fsync = on in postgresql.conf, then reload PostgreSQL.',
  'durability.full_page_writes':
    'full_page_writes is off: after a crash of the machine, a page of the database may be half old and half new. Set full_page_writes = on, unless the file system writes pages as a whole (ZFS).',
  // Our sessions set it. A proxy in between may change it.
  'durability.synchronous_commit':
    'synchronous_commit is {value} in the sessions of Switchyard, although they ask for on: a crash of PostgreSQL can lose the last charges. Connect to PostgreSQL without a proxy that changes settings.',
} as const
