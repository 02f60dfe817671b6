import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Connection } from '../../../src/base/db/open-database.ts'
import { createPool } from '../../../src/base/db/pool.ts'
import { killOnExit } from '../../harness/clean-up-on-exit.ts'
import { eventually } from '../eventually.ts'
import type { Host } from './network.ts'

const SAMPLE = new URL('../../../deploy/patroni/haproxy.cfg', import.meta.url)

/** Starts HAProxy with the sample of its configuration. Resolves with a connection through it when it leads to the primary. */
export async function startHaproxy(hosts: readonly Host[], login: Connection): Promise<Connection> {
  const file = join(mkdtempSync(join(tmpdir(), 'haproxy-')), 'haproxy.cfg')
  const sample = readFileSync(SAMPLE, 'utf8')
  writeFileSync(
    file,
    hosts.reduce((text, { name, address }) => text.replace(`${name}.internal`, address), sample),
  )
  killOnExit(spawn('haproxy', ['-db', '-q', '-f', file], { stdio: ['ignore', 'ignore', 'inherit'] }))
  const connection = { ...login, host: '127.0.0.1', port: 5000 }
  const reachesPrimary = async () => {
    const pool = createPool(connection, { max: 1, applicationName: 'chaos set-up' })
    const isReached = await pool.query('SELECT').then(
      () => true,
      () => false,
    )
    await pool.end()
    return isReached
  }
  // Before its first checks, it takes all machines in turn for the primary.
  await eventually('HAProxy leads to the primary', async () => {
    for (const _ of hosts) if (!(await reachesPrimary())) return false
    return true
  })
  return connection
}
