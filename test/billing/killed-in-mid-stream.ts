import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openDatabase } from '../../src/base/db/open-database.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { readUntil } from '../harness/event-stream.ts'
import { type ScriptedUpstream, stall } from '../harness/scripted-upstream.ts'

/** The account of a gateway's only customer. */
interface Books {
  readonly postedNanos: bigint
  readonly leasedNanos: bigint
  readonly leases: number
  readonly usage: readonly { outcome: string; cost_nanos: bigint; hoster_share_nanos: bigint }[]
  readonly violations: readonly string[]
}

/**
 * Starts a gateway process on an empty directory, lets its first customer read the beginning of a stream,
 * kills the process with -9 and starts it again. Returns the account before the request, after the kill, and
 * after the second start together with what the customer sees.
 */
export async function killedInMidStream(
  upstream: ScriptedUpstream,
): Promise<{ before: Books; killed: Books; after: Books & { balanceUsd: string } }> {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-killed-'))
  const dataDir = join(directory, 'data')
  await writeFile(
    join(directory, 'switchyard.yaml'),
    `detect: { enabled: false, cloud: false }
endpoints:
  - name: scripted
    kind: local
    base_url: ${upstream.baseUrl}
    models: [{ id: test-model, price_per_million_usd: { input: 1, output: 2 } }]
`,
  )
  // It holds the database open, so that the books can be read while no gateway runs, and stops it at the end.
  const database = await openDatabase({ dataDir, log: { info() {}, warn() {} } })
  const pool = createPool(database.connection, { max: 1, applicationName: 'the books' })
  const gateways: Gateway[] = []
  try {
    const first = await startGateway(directory)
    gateways.push(first)
    const before = await readBooks()
    upstream.respondWith(stall({ pieces: ['one', ' two'] }))
    const response = await fetch(`${first.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${first.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'test-model',
        messages: [{ role: 'user', content: 'Hello' }],
        max_tokens: 50,
        stream: true,
      }),
    })
    const reader = response.body!.getReader()
    await readUntil(reader, 'two')
    await first.stop('SIGKILL')
    // The client sees a cut connection.
    await reader.read().then(
      () => Promise.reject(new Error('the stream ended properly')),
      () => {},
    )
    const killed = await readBooks()

    const second = await startGateway(directory)
    gateways.push(second)
    const report = await fetch(`${second.url}/v1/usage`, { headers: { authorization: `Bearer ${first.key}` } })
    const { credit_balance_usd: balanceUsd } = (await report.json()) as { credit_balance_usd: number }
    return { before, killed, after: { ...(await readBooks()), balanceUsd: String(balanceUsd) } }
  } finally {
    for (const gateway of gateways) await gateway.stop('SIGTERM')
    await pool.end()
    await database.close()
    await rm(directory, { recursive: true })
  }

  async function readBooks(): Promise<Books> {
    const { rows } = await pool.query<Books>(`SELECT posted_nanos AS "postedNanos", leased_nanos AS "leasedNanos",
      (SELECT count(*)::int FROM lease) AS leases FROM balance`)
    const usage = await pool.query<Books['usage'][number]>(
      'SELECT outcome, cost_nanos, hoster_share_nanos FROM usage_event',
    )
    const violated = (await audit(pool)).filter(({ violations }) => violations > 0)
    return { ...rows[0]!, usage: usage.rows, violations: violated.map(({ name }) => name) }
  }
}

interface Gateway {
  readonly url: string
  /** Printed by the first start only. */
  readonly key: string | undefined
  /** Does nothing when the process has ended already. */
  stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>
}

const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

async function startGateway(directory: string): Promise<Gateway> {
  const child = spawn(process.execPath, [cli, 'start'], {
    cwd: directory,
    env: { PATH: process.env.PATH!, PORT: '0', LOG_LEVEL: 'error', NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  let output = ''
  for await (const part of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    output += part
    if (output.includes('API reference')) break
  }
  child.stdout.resume()
  const url = /http:\/\/[^/\s]+(?=\/v1)/.exec(output)?.[0]
  if (url === undefined) throw new Error(`The gateway did not start: ${output}`)
  return {
    url,
    key: /sk-sy-\w+/.exec(output)?.[0],
    async stop(signal) {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal)
      await exited
    },
  }
}
