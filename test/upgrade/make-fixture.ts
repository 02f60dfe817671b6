/**
 * Makes the fixture of an earlier version, for the tests of upgrades:
 *
 *     git worktree add /tmp/earlier <commit> && (cd /tmp/earlier && node scripts/setup.mjs)
 *     node test/upgrade/make-fixture.ts /tmp/earlier <folder of PostgreSQL's programs> test/upgrade/<day of the commit>
 *
 * It runs the earlier program against a new PostgreSQL, lets it serve, sell and pay, kills it in the middle, and writes the
 * database as SQL, the data directory without PostgreSQL, and what the earlier program itself answers once it has recovered.
 * The programs of PostgreSQL 15 make a dump that every later version can read.
 */
import { execFileSync } from 'node:child_process'
import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import pg from 'pg'
import { freePort } from '../../bench/free-port.ts'
import {
  type Answer,
  Browser,
  fixtureConfig,
  MODEL_KEY,
  marketOptions,
  type Program,
  type RunningProgram,
  runProgram,
  startModelServer,
  startProgram,
} from './fixture-gateway.ts'
import { firstCommands, marketCommands, observe } from './observe.ts'

if (process.argv.length !== 5) throw new Error('Usage: make-fixture.ts <clone> <folder of programs> <target>')
const [clone, programs, target] = process.argv.slice(2).map(path => resolve(path)) as [string, string, string]

const MASTER_KEY = '8d'.repeat(32)
const PASSWORD = 'correct horse battery staple'
const home = mkdtempSync(join(tmpdir(), 'switchyard-fixture-'))
const dataDir = join(home, 'data')
const models = await startModelServer()
const hosterServer = await startModelServer()
const postgres = await startPostgres()
try {
  await make()
} finally {
  postgres.stop()
  await Promise.all([models.close(), hosterServer.close()])
  rmSync(home, { recursive: true })
}

async function make(): Promise<void> {
  const program = programOf()
  const hasMarket = existsSync(join(clone, 'src/cli/payout.ts'))
  writeConfig(hasMarket)
  const { api_key: operatorKey } = await json(program, ['init', '--email', 'op@example.com'])
  const keys: Record<string, string> = { 'op@example.com': operatorKey }
  await addCustomers(program, keys)
  await addHoster(program, hasMarket)
  let gateway = await startProgram(program)
  const secrets = hasMarket ? await useMarket(program, gateway, keys) : {}
  await serve(gateway, keys)
  await gateway.stop()
  if (hasMarket) await settleOldRequests()
  await archiveAndPay(program, hasMarket)
  gateway = await startProgram(program)
  await killWhileItServes(gateway, keys)

  const sql = await connect()
  const { rows: days } = await sql.query(`SELECT min(day)::text AS from, (max(day) + 1)::text AS to FROM usage_day`)
  await sql.end()
  const period = days[0]
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target, { recursive: true })
  const dump = execFileSync(
    join(programs, 'pg_dump'),
    ['--inserts', '--rows-per-insert=200', '--no-owner', '--no-privileges', postgres.url],
    { maxBuffer: 1 << 28 },
  )
  // psql's own commands; the tests send the file to PostgreSQL as it is.
  writeFileSync(join(target, 'database.sql.gz'), gzipSync(dump.toString().replace(/^\\.*$/gm, ''), { level: 9 }))
  for (const name of ['journal', ...(hasMarket ? ['archive'] : [])])
    cpSync(join(dataDir, name), join(target, 'data', name), {
      recursive: true,
      force: true,
      filter: path => !/\.lock$|\/reserve$/.test(path),
    })

  // What the earlier program itself makes of it.
  const recovered = await startProgram(program)
  const pool = await connect()
  const command = (args: readonly string[]) => json(program, args)
  const observed = await observe(
    { url: recovered.url, keys, command, sql: pool },
    period,
    hasMarket ? marketCommands : firstCommands,
  )
  await pool.end()
  await recovered.stop()
  const expected = { masterKey: MASTER_KEY, keys, ...secrets, period, observed }
  writeFileSync(join(target, 'expected.json.gz'), gzipSync(JSON.stringify(expected), { level: 9 }))
}

async function json(program: Program, args: readonly string[]): Promise<Answer> {
  return JSON.parse(await runProgram(program, [...args, '--json']))
}

function programOf(): Program {
  return {
    command: [join(clone, 'node_modules/.bin/node'), join(clone, 'src/cli.js')],
    directory: home,
    env: {
      DATABASE_URL: postgres.url,
      SWITCHYARD_DATA: dataDir,
      SWITCHYARD_CONFIG: join(home, 'switchyard.yaml'),
      SWITCHYARD_MASTER_KEY: MASTER_KEY,
    },
  }
}

function writeConfig(hasMarket: boolean): void {
  writeFileSync(join(home, 'switchyard.yaml'), fixtureConfig(models, hasMarket ? marketOptions : {}))
}

async function addCustomers(program: Program, keys: Record<string, string>): Promise<void> {
  for (const [email, ...more] of [
    ['rich@example.com'],
    ['poor@example.com'],
    ['limited@example.com', '--limit-usd', '0.02', '--models', 'tram,barge', '--scope', 'manage'],
    ['paused@example.com'],
  ] as const) {
    await runProgram(program, ['customer', 'add', email])
    keys[email] = (await json(program, ['key', 'issue', email, '--name', 'work', ...more])).key
  }
  const { key_id: revoked } = await json(program, ['key', 'issue', 'rich@example.com', '--name', 'revoked'])
  await runProgram(program, ['key', 'revoke', revoked])
  const grant = ['--paid', '--reason', 'invoice 1042', '--ref', 'invoice-1042', '--yes']
  await runProgram(program, ['credit', 'grant', 'rich@example.com', '250.000000001', ...grant])
  await runProgram(program, [
    'customer',
    'limits',
    'limited@example.com',
    '--requests-per-minute',
    '50',
    '--daily-spend-cap-usd',
    '3',
  ])
  await runProgram(program, ['customer', 'disable', 'paused@example.com'])
  delete keys['paused@example.com']
  const webhook = ['--webhook', 'http://127.0.0.1:9/alerts']
  await runProgram(program, ['alert', 'add', 'rich@example.com', 'low_balance', '--threshold', '5', ...webhook])
  await runProgram(program, ['alert', 'add', 'poor@example.com', 'large_charge', '--threshold', '1', '--email'])
}

async function addHoster(program: Program, hasMarket: boolean): Promise<void> {
  await runProgram(program, ['hoster', 'add', 'acme', hosterServer.baseUrl, '--key', MODEL_KEY, '--trust', '0.9'])
  const terms = ['--input', '2', '--output', '8', '--context-tokens', '8192', '--max-output-tokens', '1024']
  await runProgram(program, ['hoster', 'price', 'acme', 'barge', ...terms])
  await runProgram(program, ['hoster', 'activate', 'acme'])
  await runProgram(program, ['hoster', 'price', 'acme', 'barge', '--input', '1.5', '--output', '6'])
  if (hasMarket)
    await runProgram(program, [
      'payout',
      'account',
      'acme',
      '--holder',
      'Acme GmbH',
      '--account',
      'DE89370400440532013000',
      '--customer',
      'poor@example.com',
    ])
}

/** People, payments, vouchers, members with limits, a manifest. Returns what a test needs to use them. */
async function useMarket(program: Program, gateway: RunningProgram, keys: Record<string, string>): Promise<object> {
  const operator = new Browser(gateway.url)
  const { url } = await json(program, ['operator', 'link'])
  await operator.post('welcome', { token: tokenOf(url), password: PASSWORD })
  const invite = await json(program, [
    'customer',
    'invite',
    'limited@example.com',
    'ada@example.com',
    '--role',
    'owner',
  ])
  const ada = new Browser(gateway.url)
  await ada.post('join', { token: tokenOf(invite.url), name: 'Ada', password: PASSWORD })
  const customer = `customers/${invite.customer_id}`
  await runProgram(program, ['customer', 'limit-member', 'limited@example.com', 'ada@example.com', '--limit-usd', '2'])
  keys['limited@example.com (Ada)'] = (await ada.post(`${customer}/keys`, { name: 'of Ada', label: 'research' })).key
  const topUp = await ada.post(`${customer}/top-ups`, { amount_usd: 12 }, { 'idempotency-key': 'top-up-1' })
  await runProgram(program, ['payments', 'confirm', topUp.id])
  await ada.post(`${customer}/top-ups`, { amount_usd: 30 }, { 'idempotency-key': 'top-up-2' })
  const reversal = await json(program, ['payments', 'reverse', topUp.id, '--amount', '1.5', '--reason', 'overpaid'])
  await runProgram(program, ['payments', 'return', reversal.reversal_id])
  await runProgram(program, ['payments', 'reverse', topUp.id, '--amount', '2', '--reason', 'overpaid again'])
  const vouchers = (await json(program, [
    'voucher',
    'make',
    '7',
    '--count',
    '2',
    '--days',
    '3650',
    '--note',
    'fair',
  ])) as unknown as { code: string }[]
  await ada.post(`${customer}/vouchers/redeem`, { code: vouchers[0]!.code })
  const { key: hosterKey } = await json(program, [
    'hoster',
    'key',
    'issue',
    'acme',
    '--name',
    'manifest',
    '--scope',
    'manage',
  ])
  const applied = await json(program, [
    'hoster',
    'apply',
    'beta',
    hosterServer.baseUrl.replace('/v1', '/beta/v1'),
    '--owner',
    'ada@example.com',
  ])
  const { key: betaKey } = await json(program, [
    'hoster',
    'key',
    'issue',
    'beta',
    '--name',
    'manifest',
    '--scope',
    'manage',
  ])
  const manifest = {
    models: [
      {
        id: 'ferry',
        context_length: 8_192,
        max_output_length: 1_024,
        pricing: { prompt: '0.000001', completion: '0.000002' },
      },
    ],
  }
  const sent = await fetch(`${gateway.url}/v1/hoster/manifest`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${betaKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(manifest),
  })
  if (!sent.ok) throw new Error(await sent.text())
  return {
    password: PASSWORD,
    people: ['op@example.com', 'ada@example.com'],
    voucherCode: vouchers[1]!.code,
    hosterKey,
    adaCustomerId: invite.customer_id,
    applied: applied.hoster_id,
  }
}

async function serve({ url }: RunningProgram, keys: Record<string, string>): Promise<void> {
  for (const [email, key] of Object.entries(keys)) {
    for (const model of ['tram', 'barge', 'tram'])
      await chat(url, key, { model, ...(email.startsWith('rich') && { stream: true }) })
  }
  // A customer with much credit and many requests has a bulk lease.
  for (let i = 0; i < 20; i++) await chat(url, keys['rich@example.com']!, { model: 'tram' })
  await chat(url, keys['poor@example.com']!, { model: 'tram' }, { 'idempotency-key': 'order-17' })
  await chat(url, keys['poor@example.com']!, { model: 'absent' })
}

async function chat(url: string, key: string, body: object, headers: Record<string, string> = {}): Promise<void> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      messages: [{ role: 'user', content: 'Which tram? '.repeat(100) }],
      max_tokens: 600,
      ...body,
    }),
  })
  await response.text()
}

/** Requests of January and February, as the earlier program would have settled them. */
async function settleOldRequests(): Promise<void> {
  const { encodeSettlement } = await import(join(clone, 'src/money/ledger/settlement/settlement.ts'))
  const { addUsagePartitions } = await import(join(clone, 'src/money/ledger/settlement/add-usage-partitions.ts'))
  const sql = await connect()
  const { rows } = await sql.query(
    `SELECT customer_id, key_id FROM customer JOIN api_key USING (customer_id) WHERE email = 'rich@example.com' AND revoked_at IS NULL`,
  )
  const { rows: hosters } = await sql.query(
    `SELECT hoster_id, endpoint_id FROM hoster JOIN hoster_endpoint USING (hoster_id) WHERE name = 'acme'`,
  )
  for (const [index, atMs] of [
    Date.UTC(2026, 0, 15, 10),
    Date.UTC(2026, 0, 31, 23),
    Date.UTC(2026, 1, 3, 4),
  ].entries()) {
    await addUsagePartitions(sql, atMs)
    const id = `${atMs
      .toString(16)
      .padStart(12, '0')
      .replace(/(.{8})/, '$1-')}-7000-8000-00000000000${index}`
    const charge = 1_008_000_000n
    await sql.query(
      `INSERT INTO lease (lease_id, customer_id, node_id, granted_nanos, cap_day) VALUES ($1, $2, gen_random_uuid(), $3, (to_timestamp($4::float8 / 1000) AT TIME ZONE 'UTC')::date)`,
      [id, rows[0].customer_id, charge, atMs],
    )
    await sql.query(`UPDATE balance SET leased_nanos = leased_nanos + $2 WHERE customer_id = $1`, [
      rows[0].customer_id,
      charge,
    ])
    const record = encodeSettlement({
      ...{ requestId: id, customerId: rows[0].customer_id, leaseId: id, keyId: rows[0].key_id, startedAtEpochMs: atMs },
      ...{ modelId: 'barge', provider: 'hoster', endpointId: hosters[0].endpoint_id, hosterId: hosters[0].hoster_id },
      ...{ inputTokens: 500_000, outputTokens: 1_000, reportedInputTokens: 500_000, reportedOutputTokens: 1_000 },
      ...{ countedInputTokens: null, countedOutputTokens: null, usageSource: 'upstream' },
      ...{
        price: { inputPicoPerToken: 2_000_000n, outputPicoPerToken: 8_000_000n },
        priceVersion: 1,
        holdNanos: charge,
        costNanos: charge,
      },
      ...{
        hosterShareNanos: 806_400_000n,
        feeNanos: 201_600_000n,
        writeoffNanos: 0n,
        latencyMs: 900,
        firstTokenMs: 80,
        success: true,
      },
      ...{
        outcome: 'served',
        finishReason: 'stop',
        attempts: [],
        routing: null,
        parts: null,
        reasoningTokens: null,
        label: null,
      },
    })
    const { rows: odd } = await sql.query('SELECT * FROM settle_batch(1::smallint, $1, false)', [record])
    if (odd.length > 0) throw new Error(JSON.stringify(odd))
  }
  await sql.end()
}

async function archiveAndPay(program: Program, hasMarket: boolean): Promise<void> {
  const sql = await connect()
  const { rows } = await sql.query(
    `SELECT request_id FROM usage_event WHERE cost_nanos > 0 AND provider = 'hoster' AND started_at > now() - interval '1 day' ORDER BY request_id LIMIT 2`,
  )
  await sql.end()
  await runProgram(program, ['ledger', 'refund', rows[0].request_id, '--reason', 'cut off'])
  await runProgram(program, ['ledger', 'refund', rows[1].request_id, '--amount', '0.0001', '--reason', 'half of it'])
  if (!hasMarket) return
  await runProgram(program, ['usage', 'archive', '--before', '2026-02', '--yes'])
  // One batch is paid, the next one waits.
  const { batch_id: paid } = await json(program, ['payout', 'prepare'])
  await runProgram(program, ['payout', 'approve', paid])
  await runProgram(program, ['payout', 'settle', paid, '--file', join(home, 'transfers.csv')])
  await runProgram(program, ['payout', 'settle', paid, '--paid', 'all'])
  await runProgram(program, ['payout', 'claw-back', 'acme', '0.0002', '--fraud', '--reason', 'a test'])
}

/** Leaves charges that only the journal has, and leases that nobody will return. */
async function killWhileItServes(gateway: RunningProgram, keys: Record<string, string>): Promise<void> {
  const rich = keys['rich@example.com']!
  for (let i = 0; i < 20; i++) await chat(gateway.url, rich, { model: 'tram' })
  const hanging = [rich, keys['poor@example.com']!].map(async key => {
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'tram',
        stream: true,
        max_tokens: 600,
        messages: [{ role: 'user', content: 'hang' }],
      }),
    })
    await response.body!.getReader().read()
  })
  await Promise.all(hanging)
  const sql = await connect()
  await sql.query('BEGIN')
  await sql.query('LOCK TABLE usage_event IN ACCESS EXCLUSIVE MODE')
  for (let i = 0; i < 5; i++) await chat(gateway.url, rich, { model: i % 2 ? 'tram' : 'barge' })
  await gateway.kill()
  await sql.query('ROLLBACK')
  await sql.end()
}

function tokenOf(link: string): string {
  return link.split('#')[1]!
}

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: postgres.url })
  await client.connect()
  return client
}

/** A PostgreSQL of its own. PostgreSQL refuses to run as root. */
async function startPostgres(): Promise<{ readonly url: string; stop(): void }> {
  const isRoot = process.getuid!() === 0
  const idOf = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  const user = isRoot ? { uid: idOf('-u'), gid: idOf('-g') } : {}
  const cluster = mkdtempSync(join(tmpdir(), 'switchyard-fixture-postgres-'))
  if (isRoot) chownSync(cluster, user.uid!, user.gid!)
  const port = await freePort()
  const run = (name: string, args: string[]) =>
    execFileSync(join(programs, name), args, { ...user, cwd: cluster, stdio: ['ignore', 'ignore', 'inherit'] })
  run('initdb', [
    '--pgdata',
    cluster,
    '--auth',
    'trust',
    '--username',
    'switchyard',
    '--encoding',
    'UTF8',
    '--no-locale',
  ])
  const options = `-c port=${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c jit=off -c fsync=off`
  run('pg_ctl', ['start', '--wait', '--pgdata', cluster, '--options', options, '--log', join(cluster, 'log')])
  run('createdb', ['--host', '127.0.0.1', '--port', String(port), '--username', 'switchyard', 'switchyard'])
  return {
    url: `postgres://switchyard@127.0.0.1:${port}/switchyard`,
    stop() {
      run('pg_ctl', ['stop', '--mode', 'immediate', '--pgdata', cluster])
      rmSync(cluster, { recursive: true })
    },
  }
}
