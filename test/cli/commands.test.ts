import { execFile } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import { quoteForShell } from '../../src/base/runtime/quote-for-shell.ts'
import { hasValidChecksum, hintOf, mintApiKey } from '../../src/identity/auth/api-key.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../alerts/webhook-receiver.ts'
import { createTestDatabase } from '../harness/database.ts'
import { serviceAccountJson } from '../harness/service-account.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { type CliRun, databaseUrl, runCli } from './run-cli.ts'
import { useCli } from './use-cli.ts'

const database = useTestDatabase()
const cli = useCli(database)

/** How hints name the program in the directory of the tests: npx would find another package there. */
const program = quoteForShell(fileURLToPath(new URL('../../bin/switchyard', import.meta.url)))

interface RunOptions {
  env?: Record<string, string>
  input?: string
  stdout?: number
}

function switchyard(line: string, options: RunOptions = {}): Promise<CliRun> {
  const args = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!)
  return cli.run(args, options)
}

/** Runs a command that must succeed. Returns its JSON. */
async function json(line: string, options: { input?: string } = {}) {
  const { code, stdout, stderr } = await switchyard(`${line} --json`, options)
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout)
}

/** Runs doctor. Returns the detail of each check by its name. */
async function doctorIn(env: Record<string, string>): Promise<Record<string, string>> {
  const { checks } = JSON.parse((await switchyard('doctor --json', { env: { PORT: '0', ...env } })).stdout)
  return Object.fromEntries(checks.map(({ check, detail }: { check: string; detail: string }) => [check, detail]))
}

describe('customers, keys and credit', () => {
  test('a customer starts with the signup credit and can be found by e-mail and id', async () => {
    const added = await json('customer add Ada@example.com')
    expect(added).toMatchObject({ email: 'Ada@example.com', account_tier: 'free', balance_usd: '5.00' })
    const again = await switchyard('customer add ada@EXAMPLE.com')
    expect(again).toMatchObject({ code: 1, stdout: '', stderr: 'The customer ada@EXAMPLE.com already exists.\n' })
    await json(`customer tier ${added.customer_id} scale`)
    expect(await json('customer list')).toMatchObject([
      { customer_id: added.customer_id, account_tier: 'scale', balance_usd: '5.00' },
    ])
    await json('customer tier ada@example.com free')
  })

  // Between `git pull` and the restart, the running server still needs the tables of its own version.
  test('a command does not migrate the database of a running older server', async () => {
    const older = await createTestDatabase()
    const { pool } = older
    const { rows } = await pool.query<{ name: string }>(
      'DELETE FROM migration WHERE version = (SELECT max(version) FROM migration) RETURNING name',
    )
    const server = createPool(older.connection, { max: 1, applicationName: 'switchyard heartbeat' })
    await server.query('SELECT')
    const { code, stderr } = await switchyard('customer list', {
      env: { DATABASE_URL: databaseUrl(older.connection) },
    })
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `A running Switchyard server of an older version uses this database, and this command would migrate it (${rows[0]!.name}, the functions of this version). Restart the server with this version first.\n`,
    })
    await server.end()
    await older.drop()
  })

  test('without a database a command fails and creates none', async () => {
    const env = { DATABASE_URL: '', SWITCHYARD_DATA: join(cli.directory, 'elsewhere') }
    const { code, stdout, stderr } = await switchyard('customer list', { env })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    const message = `There is no database in ${env.SWITCHYARD_DATA}. If this is not the server's data directory, set`
    expect(stderr).toContain(message)
    expect(existsSync(env.SWITCHYARD_DATA)).toBe(false)
    // An empty mount point whose disk is missing.
    await mkdir(join(env.SWITCHYARD_DATA, 'postgres'), { recursive: true })
    expect((await switchyard('customer list', { env })).stderr).toContain(message)
    expect((await doctorIn(env)).database).toMatch(/^none yet/)
    expect(await readdir(env.SWITCHYARD_DATA)).toEqual(['postgres'])
    await rm(env.SWITCHYARD_DATA, { recursive: true })
  })

  test('a key is the only output on stdout and is never shown again', async () => {
    const issued = await switchyard('key issue ada@example.com --name laptop')
    const key = issued.stdout.trim()
    expect(issued.code).toBe(0)
    expect(hasValidChecksum(key)).toBe(true)
    const list = await switchyard('key list')
    expect(list.stdout).toContain('laptop')
    expect(list.stdout).not.toContain(key)
    const [{ key_id, hint, state }] = await json('key list ada@example.com')
    expect({ hint, state }).toEqual({ hint: `${key.slice(0, 10)}…${key.slice(-4)}`, state: 'active' })
    expect(await json(`key revoke ${hint}`)).toMatchObject({ key_id, changed: true })
    expect(await json(`key revoke ${key_id}`)).toMatchObject({ key_id, changed: false })
    // A leaked key is usually known as a whole.
    expect(await json(`key revoke ${key}`)).toMatchObject({ key_id, changed: false })
    const unknownKey = mintApiKey()
    const refused = await switchyard(`key revoke ${unknownKey}`)
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`There is no key ${hintOf(unknownKey)}.`),
    })
    expect(refused.stderr).not.toContain(unknownKey)
    expect(await json('key list')).toMatchObject([{ state: 'revoked' }])
  })

  test('a command without arguments reports missing arguments before missing options', async () => {
    const { code, stderr } = await switchyard('key issue')
    expect(code).toBe(2)
    expect(stderr.split('\n').slice(0, 2)).toEqual([
      "Missing required argument 'customer'.",
      "Required option '--name <name>' not specified.",
    ])
    expect((await switchyard('key issue ada@example.com')).stderr).toMatch(/^Required option '--name/)
    expect((await switchyard('key issue --name x')).stderr).toBe(
      `Missing required argument 'customer'.\nSee: ${program} key issue --help\n`,
    )
  })

  test('a date that does not exist is a usage error', async () => {
    const { code, stderr } = await switchyard('key issue ada@example.com --name x --expires 2999-02-29')
    expect(code).toBe(2)
    expect(stderr).toContain("Option '--expires <when>' argument '2999-02-29' is invalid. It must be a valid date")
  })

  test('key list shows the limits, models and scopes of a key', async () => {
    const issued = await json(
      'key issue ada@example.com --name bot --limit-usd 2.5 --limit-reset weekly --models qwen3,llama3 --scope manage --label ci/main --default tier=fastest',
    )
    const access = {
      limit_usd: '2.50',
      limit_reset: 'weekly',
      allowed_models: ['qwen3', 'llama3'],
      scopes: ['manage'],
      label: 'ci/main',
      defaults: { tier: 'fastest' },
    }
    expect(issued).toMatchObject(access)
    expect((await json('key list'))[0]).toMatchObject({ ...access, key_id: issued.key_id })
    expect((await switchyard('key list')).stdout).toContain(
      '2.50 USD weekly  qwen3, llama3  manage  ci/main  tier=fastest',
    )
    expect(await switchyard('key issue ada@example.com --name bot --limit-reset daily')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('add --limit-usd'),
    })
  })

  test('a key for a model that no server offers is issued with a warning', async () => {
    const { code, stdout, stderr } = await switchyard('key issue ada@example.com --name bot --models demo,nope')
    expect({ code, isKey: hasValidChecksum(stdout.trim()) }).toEqual({ code: 0, isKey: true })
    expect(stderr).toContain(`Warning: no server offers nope now. List the models with: ${program} model list\n`)
    const known = await switchyard('key issue ada@example.com --name bot --models demo')
    expect(known.stderr).not.toContain('Warning')
  })

  test('credit is granted once per ref, to the nano-USD, and the first grant moves free to standard', async () => {
    const order = 'credit grant ada@example.com 12.000000001 --paid --reason "invoice 7" --ref invoice-7'
    // Credit that nobody paid for does not.
    const free = 'credit grant ada@example.com 1 --promotion --reason goodwill --ref free --yes --dry-run'
    expect(await json(free)).toMatchObject({ would_grant: true, is_promotion: true, account_tier: 'free' })
    const preview = await json(`${order} --dry-run`)
    expect(preview).toMatchObject({ granted: false, would_grant: true, dry_run: true, ref: 'invoice-7' })
    expect((await switchyard(`${order} --dry-run`)).stdout).toMatch(/ would get 12\.000000001 USD .* Ref: invoice-7\n$/)
    // Without --ref, the grant draws one that the dry run cannot know.
    const withoutRef = 'credit grant ada@example.com 1 --paid --reason x --dry-run'
    expect(await json(withoutRef)).toMatchObject({ would_grant: true, ref: null })
    expect((await switchyard(withoutRef)).stdout).toContain('Ref: chosen by the grant')
    expect(preview).toMatchObject({ account_tier: 'standard', balance_usd: '17.000000001' })
    expect(await json('customer list')).toMatchObject([{ balance_usd: '5.00', account_tier: 'free' }])
    expect(await switchyard(order)).toMatchObject({ code: 2, stdout: '' })
    expect(await json(`${order} --yes`)).toMatchObject({ granted: true, balance_usd: '17.000000001' })
    expect(await json(`${order} --yes`)).toMatchObject({ granted: false, balance_usd: '17.000000001' })
    const other = await switchyard('credit grant ada@example.com 13 --paid --reason x --ref invoice-7 --yes')
    expect(other).toMatchObject({ code: 1, stdout: '' })
    expect(await json('customer list')).toMatchObject([{ balance_usd: '17.000000001', account_tier: 'standard' }])

    await json('customer tier ada@example.com free')
    expect(await json('credit grant ada@example.com 1 --paid --reason more --yes')).toMatchObject({
      account_tier: 'free',
    })
    expect(await json('ledger audit')).toMatchObject({ ok: true })
  })

  test('an audit with violations names them and exits with 1', async () => {
    const [{ customer_id }] = await json('customer list')
    const add = (nanos: number) => database.pool.query('UPDATE balance SET posted_nanos = posted_nanos + $1', [nanos])
    await add(1)
    const shown = await switchyard('ledger audit')
    expect(shown).toMatchObject({ code: 1, stderr: expect.stringMatching(/^1 of \d+ checks failed\. /) })
    expect(shown.stdout).toMatch(/^WRONG +balances_equal_entries +1$/m)
    expect(shown.stdout).toContain(`\nExamples of balances_equal_entries: ${customer_id}\n`)
    const { code, stdout } = await switchyard('ledger audit --json')
    expect(code).toBe(1)
    const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: { violations: number }[] }
    expect(ok).toBe(false)
    expect(checks.filter(({ violations }) => violations > 0)).toEqual([
      { name: 'balances_equal_entries', violations: 1, examples: [customer_id] },
    ])
    await add(-1)
    expect((await switchyard('ledger audit')).code).toBe(0)
  })
})

describe('hosters and models', () => {
  test('a hoster is added, priced, trusted, activated, listed and suspended', async () => {
    const added = await json('hoster add acme https://models.acme.dev/v1/ --key-file -', { input: 'secret-key\n' })
    expect((await switchyard('hoster activate acme')).stdout).toContain('needs a price first')
    await json('hoster suspend acme')
    const early = await switchyard('hoster price acme llama --input 0.2 --output 0.6')
    expect(early).toMatchObject({ code: 1, stdout: '' })
    expect(early.stderr).toContain('--context-tokens')
    const inverse = await switchyard(
      'hoster price acme llama --input 0 --output 0 --context-tokens 10 --max-output-tokens 11',
    )
    expect(inverse).toMatchObject({ code: 1, stderr: expect.stringContaining('11 tokens, is more than') })
    const limits = '--context-tokens 8192 --max-output-tokens 4096 --max-concurrent 4 --features tools'
    expect(await json(`hoster price acme llama --input 0.2 --output 0.6 ${limits}`)).toMatchObject({ version: 1 })
    const { hoster_id } = added
    expect(await json(`hoster price ${hoster_id} llama --input 0.1 --output 0.000001`)).toMatchObject({
      hoster_id,
      name: 'acme',
      version: 2,
    })
    await json('hoster trust acme 0.9')
    expect(await json(`hoster activate ${added.hoster_id}`)).toMatchObject({ state: 'active', models: 1 })
    const models = [
      {
        id: 'llama',
        price_version: 2,
        price_per_million_usd: { input: '0.10', output: '0.000001' },
        max_concurrent: 4,
        features: ['tools'],
      },
    ]
    const [listed] = await json('hoster list')
    expect(listed).toMatchObject({
      ...added,
      state: 'active',
      trust_score: 0.9,
      share_bps: 8000,
      has_key: true,
      models,
    })
    expect((await switchyard('hoster list')).stdout).not.toContain('secret-key')
    await json('hoster price acme llama --input 0.1 --output 0.000001 --max-concurrent 0')
    expect((await json('hoster list'))[0].models).toMatchObject([{ price_version: 3, max_concurrent: null }])

    const offered = await json('model list')
    expect(offered.map(({ model, kind, demo }: Record<string, unknown>) => ({ model, kind, demo }))).toEqual(
      expect.arrayContaining([
        { model: 'demo', kind: 'local', demo: true },
        { model: 'llama', kind: 'hoster', demo: false },
      ]),
    )
    await json('hoster key acme --none')
    await json('hoster suspend acme')
    expect(await json('hoster list')).toMatchObject([{ state: 'suspended', has_key: false }])
  })

  test('a command without the master key of the servers seals nothing and creates no key', async () => {
    const elsewhere = join(cli.directory, 'elsewhere')
    await mkdir(elsewhere)
    const env = { SWITCHYARD_DATA: elsewhere }
    for (const line of ['hoster add other https://models.acme.dev/v1', 'hoster key acme --key new', 'model list'])
      expect(await switchyard(line, { env })).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringContaining(`${join(elsewhere, 'master.key')} is missing. Set SWITCHYARD_DATA`),
      })
    expect(await readdir(elsewhere)).toEqual([])
    const another = { SWITCHYARD_MASTER_KEY: 'ab'.repeat(32) }
    expect(await switchyard('hoster key acme --key new', { env: another })).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^SWITCHYARD_MASTER_KEY does not have the master key that the servers seal with/),
    })
    expect(await json('hoster list')).toMatchObject([{ name: 'acme', has_key: false }])
  })

  test('a hoster at a private address is refused', async () => {
    expect(await switchyard('hoster add evil http://169.254.169.254/v1')).toMatchObject({ code: 1, stdout: '' })
  })

  test('a model id of hosters is refused, listed with the reason, and approved', async () => {
    await json('hoster add ids https://models.acme.dev/v1')
    await json('hoster price ids gpt-9 --input 1 --output 2 --context-tokens 8192 --max-output-tokens 1024')
    // What the operator prices is approved.
    expect(await json('model review')).toEqual([])
    expect(await json('model refuse gpt-9 --reason "No such model"')).toEqual({ model: 'gpt-9', state: 'refused' })
    expect(await json('model review')).toMatchObject([
      { model: 'gpt-9', state: 'refused', reason: 'No such model', hosters: [{ name: 'ids' }] },
    ])
    expect((await switchyard('model approve gpt-9')).code).toBe(2)
    const approved = await switchyard('model approve gpt-9 --reason "It exists"')
    expect(approved).toMatchObject({ code: 0, stdout: 'Hosters may sell gpt-9.\n' })
    expect(await json('model review')).toEqual([])
  })
})

describe('alerts', () => {
  let receiver: WebhookReceiver
  beforeAll(async () => {
    receiver = await startWebhookReceiver()
    await writeFile(join(cli.directory, 'alerts.yaml'), 'alerts: { allow_private_urls: true }\n')
  })
  afterAll(() => receiver.close())

  test('a rule is added, listed and removed; its secret is the only output on stdout', async () => {
    await json('customer add bob@example.com')
    const add = `alert add bob@example.com low_balance --threshold 2.50 --webhook ${receiver.url}`
    expect(await switchyard(add)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('https://') })
    const added = await switchyard(`${add} --config alerts.yaml`)
    expect(added).toMatchObject({ code: 0, stdout: expect.stringMatching(/^whsec_\S+\n$/) })
    const secret = added.stdout.trim()
    const [rule] = await json('alert list bob@example.com')
    expect(rule).toMatchObject({ kind: 'low_balance', threshold_usd: '2.50', target: receiver.url })
    expect(JSON.stringify(rule)).not.toContain(secret)
    await json(`alert remove ${rule.id}`)
    expect(await switchyard(`alert remove ${rule.id}`)).toMatchObject({ code: 1, stdout: '' })
  })

  test('a rule is tested, and the log shows the attempts', async () => {
    const add = `alert add bob@example.com key_limit_reached --webhook ${receiver.url} --config alerts.yaml`
    const { secret, ...rule } = await json(add)
    receiver.answerWith(response => response.writeHead(503).end())
    const failed = await switchyard(`alert test ${rule.id} --config alerts.yaml`)
    expect(failed).toMatchObject({ code: 1, stdout: '', stderr: `${receiver.url}: The receiver answered 503.\n` })
    expect(await json(`alert test ${rule.id} --config alerts.yaml`)).toMatchObject({
      outcome: 'delivered',
      status: 204,
    })
    const webhook = receiver.received[1]!
    expect(new Webhook(secret).verify(webhook.body, webhook.headers as Record<string, string>)).toMatchObject({
      type: 'alert.test',
    })
    expect(await json(`alert log ${rule.id}`)).toMatchObject([
      { kind: 'test', attempts: [{ outcome: 'delivered' }] },
      { kind: 'test', delivered_at: null, attempts: [{ outcome: 'failed', status: 503 }] },
    ])
  })

  test('the operator may choose any mail address; without a mail server a test fails and prints the mail', async () => {
    const added = await switchyard('alert add bob@example.com daily_spend --email billing@example.com --json')
    expect(added.stderr).toContain('mails are logged instead of sent')
    const rule = JSON.parse(added.stdout)
    expect(rule).toMatchObject({ channel: 'email', target: 'billing@example.com', secret: null })
    const tested = await switchyard(`alert test ${rule.id}`)
    expect(tested).toMatchObject({ code: 1, stdout: '' })
    expect(tested.stderr).toContain(
      'The test alert was logged instead of sent: no mail server is configured. Set smtp.host.',
    )
    expect(tested.stderr).toContain('your alerts arrive here')
  })
})

describe('usage errors exit with 2 and say what to do', () => {
  test.each([
    ['', /Usage: switchyard/],
    ['custmer', /^Unknown command 'custmer'\. Did you mean customer\?$/m],
    ['key edit 00000000-0000-7000-8000-000000000001', /^Say what to change\.$/m],
    ['customer add nobody', /must be an e-mail address/],
    ['customer add a@example.com --tier gold', /Choose one of: free, standard, scale/],
    ['key issue a@example.com', /Required option '--name <name>'/],
    ['credit grant a@example.com 1e3 --paid --reason x', /must be USD above zero/],
    ['credit grant a@example.com 1 --reason x --yes', /^Add --paid if .*, or --promotion if nobody did\.$/m],
    ['hoster key acme', /--key-file, --key or --none/],
    ['alert add a@example.com daily_spend', /--webhook <url> or --email/],
    ['alert add a@example.com low_balance --email', /low_balance needs a threshold: add --threshold/],
    ['alert add a@example.com daily_spend --email --threshold 1', /daily_spend has no threshold/],
    ['alert add a@example.com high_balance --email', /Choose one of: low_balance, daily_spend/],
    ['alert add a@example.com daily_spend --email nobody', /must be an e-mail address/],
    ['ledger refund nonsense --reason x', /must be the x-request-id of an answer/],
    ['ledger refund 00000000-0000-7000-8000-000000000001 --reason x --amount 0', /must be USD above zero/],
  ])('switchyard %s', async (line, message) => {
    const run = await switchyard(line)
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toMatch(message)
    if (line === '') return
    // One form, also for what commander finds: sentences, and the help of the command.
    const lines = run.stderr.trimEnd().split('\n')
    expect(lines.pop()).toMatch(/^See: (?<program>\S+) (?<words>[\w ]* )?--help$/)
    expect(lines).toEqual(lines.map(() => expect.stringMatching(/^(?!error:)([A-Z-]|\w+_).*[.?]$/)))
  })
})

test('every hint is a command that works where it is printed', async () => {
  const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
  const issueIn = async (cwd: string) => {
    const env = { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_DATA: cli.directory }
    const { stderr } = await runCli(['customer', 'show', 'nobody@example.com'], { cwd, env })
    return /with: (.+), and/.exec(stderr)?.[1]
  }
  expect(await issueIn(root)).toBe('npx switchyard customer list')
  expect(await issueIn(cli.directory)).toBe(`${program} customer list`)
  const help = await switchyard('customer add --help')
  expect(help.stdout).toContain(`$ ${program} customer add ada@example.com`)
})

test('a configuration error is printed on stderr with its line', async () => {
  await writeFile(join(cli.directory, 'broken.yaml'), 'server:\n  prot: 1\n')
  const run = await switchyard('customer list --config broken.yaml')
  expect(run).toEqual({
    code: 1,
    stdout: '',
    stderr: 'broken.yaml:2: server.prot is not a setting; did you mean port?\n',
  })
})

test('--json and --config work before a command too; after it they win', async () => {
  for (const line of ['--json customer list', 'customer --json list', 'customer list --json']) {
    const { code, stdout } = await switchyard(line)
    expect({ code, rows: Array.isArray(JSON.parse(stdout)) }).toEqual({ code: 0, rows: true })
  }
  const broken = await switchyard('--config broken.yaml customer list')
  expect(broken).toMatchObject({ code: 1, stderr: expect.stringContaining('broken.yaml:2') })
  await writeFile(join(cli.directory, 'whole.yaml'), '')
  expect(await switchyard('--config broken.yaml customer list --config whole.yaml')).toMatchObject({ code: 0 })
})

test('suggested commands quote arguments for the shell', async () => {
  const customer = await switchyard("customer add o'hara@example.com")
  expect(customer.stderr).toContain(String.raw`${program} key issue 'o'\''hara@example.com' --name <name>`)
  const hoster = await switchyard('hoster add "Big Iron" https://models.acme.dev/v1')
  expect(hoster.stderr).toBe(
    `Next: ${program} hoster price 'Big Iron' <model> ..., then ${program} hoster activate 'Big Iron'\n`,
  )
  expect((await switchyard('hoster activate "Big Iron"')).stdout).toContain(
    `${program} hoster price 'Big Iron' <model>`,
  )
})

// A pipe takes 64 KiB at once. A command that ends before its reader has read the rest would truncate the result.
test('a result that exceeds the pipe buffer is written completely', async () => {
  const { customer_id } = await json('customer add many@example.com')
  await database.pool.query(
    `INSERT INTO api_key (key_id, customer_id, name, key_hash, hint)
     SELECT gen_random_uuid(), $1, repeat('x', 2000), sha256(n::text::bytea), 'sk-sy-' || n FROM generate_series(1, 2000) n`,
    [customer_id],
  )
  expect(await json('key list many@example.com')).toHaveLength(2000)
})

test.skipIf(!existsSync('/dev/full'))('a result that cannot be written is a failure', async () => {
  const fullDisk = openSync('/dev/full', 'w')
  const { code, stderr } = await switchyard('key list --json', { stdout: fullDisk })
  closeSync(fullDisk)
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: 'Cannot write to standard output, so the result is lost: ENOSPC: no space left on device, write\n',
  })
})

test('a space in the path of the clone creates no second directory', async () => {
  const parent = join(cli.directory, 'spaces')
  await mkdir(join(parent, 'my gateway'), { recursive: true })
  await symlink(fileURLToPath(new URL('../..', import.meta.url)), join(parent, 'my gateway', 'switchyard'))
  const program = join(parent, 'my gateway', 'switchyard', 'src', 'cli.js')
  await promisify(execFile)(process.execPath, ['--preserve-symlinks', '--preserve-symlinks-main', program, '--version'])
  expect(await readdir(parent)).toEqual(['my gateway'])
})

test('help and version go to stdout and succeed', async () => {
  expect(await switchyard('key issue --help')).toMatchObject({ code: 0, stderr: '' })
  expect(await switchyard('--version')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
})

describe('doctor', () => {
  let upstream: Server
  let port: number
  beforeAll(async () => {
    upstream = createServer((request, response) => {
      const allowed = request.headers['api-key'] === 'right'
      response.writeHead(allowed ? 200 : 401, { 'content-type': 'application/json' })
      response.end(allowed ? JSON.stringify({ object: 'list', data: [{ id: 'qwen' }] }) : '{}')
    })
    await new Promise<void>(resolve => upstream.listen(0, '127.0.0.1', resolve))
    port = (upstream.address() as AddressInfo).port
  })
  afterAll(() => new Promise(resolve => upstream.close(resolve)))

  async function doctor(key: string, model: string, env: Record<string, string>) {
    const yaml = `endpoints:
  - name: gpu
    kind: local
    base_url: http://127.0.0.1:${port}/v1
    key_header: api-key
    api_key: ${key}
    models:
      - { id: ${model}, price_per_million_usd: { input: 0, output: 0 } }
`
    await writeFile(join(cli.directory, 'doctor.yaml'), yaml)
    const { code, stdout, stderr } = await switchyard('doctor --json --config doctor.yaml', { env })
    const { ok, checks } = JSON.parse(stdout) as {
      ok: boolean
      checks: { check: string; ok: boolean; detail: string }[]
    }
    expect(ok, stderr).toBe(code === 0)
    return Object.fromEntries(checks.map(({ check, ok, detail }) => [check, ok ? 'ok' : detail]))
  }

  test('every check passes', async () => {
    expect(await doctor('right', 'qwen', { PORT: '0' })).toEqual({
      configuration: 'ok',
      'data directory': 'ok',
      port: 'ok',
      database: 'ok',
      migrations: 'ok',
      durability: 'ok',
      clock: 'ok',
      roles: 'ok',
      jobs: 'ok',
      'account tiers': 'ok',
      'master key': 'ok',
      'local gpu': 'ok',
    })
  })

  test('warns of settings that risk charges, and does not fail', async () => {
    // The PostgreSQL of the tests runs without fsync and full_page_writes.
    const { code, stdout } = await switchyard('doctor --config doctor.yaml', { env: { PORT: '0' } })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^WARNING {2}durability +fsync is off: .* full_page_writes is off: /m)
  })

  test('says whether Google accepts the key of a service account', async () => {
    const yaml = `endpoints:
  - name: vertex
    kind: cloud
    base_url: http://127.0.0.1:1/v1/projects/p/locations/global
    google_service_account: key.json
    models:
      - { id: gemini, price_per_million_usd: { input: 1, output: 1 } }
`
    await writeFile(join(cli.directory, 'vertex.yaml'), yaml)
    let answer: object = { error: 'invalid_grant' }
    const google = createServer((_request, response) => {
      response.writeHead('error' in answer ? 400 : 200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(answer))
    })
    await new Promise<void>(resolve => google.listen(0, '127.0.0.1', resolve))
    const doctorOfVertex = async () => {
      const { stdout } = await switchyard('doctor --json --config vertex.yaml', { env: { PORT: '0' } })
      const { checks } = JSON.parse(stdout) as { checks: { check: string; detail: string }[] }
      return Object.fromEntries(checks.map(({ check, detail }) => [check, detail]))
    }
    try {
      const { port: tokenPort } = google.address() as AddressInfo
      await writeFile(join(cli.directory, 'key.json'), serviceAccountJson(`http://127.0.0.1:${tokenPort}/token`))
      expect((await doctorOfVertex())['cloud vertex']).toMatch(
        /^gateway@my-project\S+ gets no token: the token endpoint answered 400 invalid_grant\. Check google_service_account/,
      )
      answer = { access_token: 'token', expires_in: 3_600 }
      expect((await doctorOfVertex())['cloud vertex']).toMatch(/^Google gives a token to gateway@my-project/)
      await writeFile(join(cli.directory, 'key.json'), '{}')
      expect((await doctorOfVertex()).configuration).toMatch(
        /^vertex\.yaml:5: endpoints\[0\]\.google_service_account is not the key of a service account/,
      )
    } finally {
      google.close()
    }
  })

  test('reports a wrong key, a taken port and a customer with an unknown tier', async () => {
    await database.pool.query("UPDATE customer SET account_tier = 'gone'")
    expect(await doctor('wrong', 'qwen', { PORT: String(port) })).toMatchObject({
      port: `Port ${port} on 127.0.0.1 is taken by another program. Choose another port with --port or PORT.`,
      'account tiers': expect.stringContaining('tiers that are not configured: gone.'),
      'local gpu': `http://127.0.0.1:${port}/v1/models refuses the key (401). Check api_key.`,
    })
  })

  test('reports everything that would prevent a start', async () => {
    const broken = join(cli.directory, 'broken')
    await mkdir(broken)
    await writeFile(join(broken, 'master.key'), 'half')
    await database.pool.query("UPDATE migration SET checksum = 'edited' || checksum WHERE version = 2")
    const { stdout, code } = await switchyard('doctor --json', {
      env: { SWITCHYARD_DATA: broken, HOST: 'no-such-host.invalid', PORT: '0' },
    })
    await database.pool.query('UPDATE migration SET checksum = substr(checksum, 7) WHERE version = 2')
    expect(code).toBe(1)
    expect(JSON.parse(stdout).checks).toEqual(
      expect.arrayContaining([
        {
          check: 'port',
          ok: false,
          detail: expect.stringMatching(/^The name no-such-host.invalid does not resolve. Set HOST/),
        },
        {
          check: 'migrations',
          ok: false,
          detail: expect.stringMatching(/^Migration 0002_money.sql was changed after/),
        },
        { check: 'master key', ok: false, detail: expect.stringMatching(/does not contain a valid key. Restore it/) },
      ]),
    )
    expect(await doctorIn({ SWITCHYARD_MASTER_KEY: 'ab'.repeat(32) })).toMatchObject({
      'master key': expect.stringContaining('does not have the master key that the servers seal with'),
    })
  })

  test('on a database without a mark of its master key, creates no key and stores no mark', async () => {
    const mark = 'FROM master_key'
    await database.pool.query(`DELETE ${mark}`)
    await database.pool.query("UPDATE hoster SET state = 'active'")
    const empty = join(cli.directory, 'empty')
    await mkdir(empty)
    expect(await doctorIn({ SWITCHYARD_DATA: empty })).toMatchObject({
      'master key': 'none yet; the first start creates it in the data directory',
      hoster: expect.stringContaining(`${join(empty, 'master.key')} is missing.`),
    })
    expect(await readdir(empty)).toEqual([])
    expect(await database.pool.query(`SELECT ${mark}`)).toMatchObject({ rowCount: 0 })
  })

  test('on an unusable data directory, the database counts as not checked', async () => {
    const file = join(cli.directory, 'a-file')
    await writeFile(file, '')
    const { code, stdout, stderr } = await switchyard('doctor --json', {
      env: { DATABASE_URL: '', SWITCHYARD_DATA: file, PORT: '0' },
    })
    const { ok, checks } = JSON.parse(stdout)
    expect({ code, ok, stderr }).toEqual({ code: 1, ok: false, stderr: '1 of 5 checks failed.\n' })
    const detail = 'not checked: the data directory cannot be used'
    expect(checks).toEqual(
      expect.arrayContaining([
        { check: 'data directory', ok: false, detail: expect.stringContaining(`${file} is not a directory.`) },
        { check: 'database', ok: false, skipped: true, detail },
        { check: 'master key', ok: false, skipped: true, detail },
      ]),
    )
    const shown = await switchyard('doctor', { env: { DATABASE_URL: '', SWITCHYARD_DATA: file, PORT: '0' } })
    expect(shown.stdout).toMatch(/^skipped +database +not checked/m)
  })

  test('reports a missing model and an unreachable database', async () => {
    const found = await doctor('right', 'llama', { PORT: '0', DATABASE_URL: 'postgres://me:secret@127.0.0.1:1/none' })
    expect(found).toMatchObject({
      database: expect.stringContaining('PostgreSQL is not listening'),
      'local gpu': `http://127.0.0.1:${port}/v1 does not list llama. Check upstream_model.`,
    })
    expect(JSON.stringify(found)).not.toContain('secret')
  })
})
