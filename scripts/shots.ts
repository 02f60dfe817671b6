// `npm run shots` takes the pictures of the documentation: it starts a gateway with the demo model and a new database, adds the
// generated usage of a month, sends some requests, and opens the console in Chromium.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { generateUsage } from '../bench/generate-usage.ts'
import { openDatabase } from '../src/base/db/open-database.ts'
import { createPool, transaction } from '../src/base/db/pool.ts'
import { loadMasterKeys } from '../src/base/secrets/master-key.ts'
import { evidenceOf } from '../src/cli/require-master-key.ts'
import { launchChromium, settled } from '../test/harness/chromium.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const command = join(root, 'bin/switchyard')
const images = join(root, 'docs', 'images')
const data = mkdtempSync(join(tmpdir(), 'switchyard-shots-'))
const env = { ...process.env, SWITCHYARD_DATA: data, METRICS_PORT: '0' }
const customer = 'you@localhost'
const DAYS = 30
const ROWS = 24_000
mkdirSync(images, { recursive: true })

try {
  const { link } = await withGateway(started)
  addKeysAndCredit()
  const customerId = await addUsage()
  // Fails if the generated books do not agree.
  run('ledger', 'audit')
  // A limit counts what a key spends from now on, so this key has no generated usage.
  const limited = ['--limit-usd', '5', '--limit-reset', 'monthly', '--json']
  const { key } = JSON.parse(run('key', 'issue', customer, '--name', 'web app', ...limited)) as { key: string }
  await withGateway(async gateway => {
    const origin = await listening(gateway)
    // The database knows the link by its secret, whatever the port was.
    await takeShots({ link: `${origin}${new URL(link).pathname}${new URL(link).hash}`, key, customerId })
  })
} finally {
  rmSync(data, { recursive: true, force: true })
}

/** Runs a gateway on the data directory while `use` runs. */
async function withGateway<Result>(use: (gateway: ChildProcess) => Promise<Result>): Promise<Result> {
  const gateway = spawn(command, ['start', '--port', '0'], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    return await use(gateway)
  } finally {
    gateway.kill()
    await once(gateway, 'close')
  }
}

/** Reads the link that the first start prints. */
async function started(gateway: ChildProcess): Promise<{ link: string }> {
  for await (const line of createInterface({ input: gateway.stdout! })) {
    const link = /http\S+\/welcome#\S+/.exec(line)?.[0]
    if (link !== undefined) return { link }
  }
  throw new Error('The gateway ended before it was ready.')
}

/** Reads the address that every start prints. */
async function listening(gateway: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: gateway.stdout! })) {
    const origin = /Switchyard is ready: (http:\/\/[^/]+)/.exec(line)?.[1]
    if (origin !== undefined) return origin
  }
  throw new Error('The gateway ended before it was ready.')
}

function addKeysAndCredit(): void {
  run('credit', 'grant', customer, '50', '--paid', '--reason', 'invoice 1042', '--ref', 'invoice-1042', '--yes')
  run('key', 'issue', customer, '--name', 'support bot')
  run('key', 'issue', customer, '--name', 'nightly tests')
}

function run(...words: string[]): string {
  return execFileSync(command, words, { env, stdio: 'pipe', encoding: 'utf8' })
}

/** Adds a month of requests with three keys, five models, and servers of all kinds. Weekends have less. Returns the customer. */
async function addUsage(): Promise<string> {
  const silent = { info: () => {}, warn: console.warn }
  const database = await openDatabase({ databaseUrl: undefined, dataDir: data, log: silent })
  const pool = createPool(database.owner, { max: 1, applicationName: 'shots', statementTimeoutMs: 0 })
  const [row] = (
    await pool.query<{ customerId: string; keyIds: string[] }>(
      `SELECT customer_id AS "customerId", array_agg(key_id ORDER BY created_at) AS "keyIds" FROM api_key GROUP BY customer_id`,
    )
  ).rows
  const nowEpochMs = Date.now()
  const weights = Array.from({ length: DAYS }, (_, day) => {
    const weekday = new Date(nowEpochMs - (DAYS - 1 - day) * 86_400_000).getUTCDay()
    const growth = 1 + day / DAYS
    return growth * (weekday % 6 === 0 ? 0.4 : 1 + 0.15 * Math.sin(day * 2))
  })
  await generateUsage(pool, { rows: ROWS, nowEpochMs, days: DAYS, otherCustomers: 0, account: row!, weights })
  // Credit that no process of the gateway vouches for would fail the audit.
  const evidence = evidenceOf(loadMasterKeys({ masterKey: null, dataDir: data }))
  await transaction(pool, sql => evidence.add(sql, 'credit', `generated ${row!.customerId}`))
  await pool.end()
  await database.close()
  return row!.customerId
}

async function takeShots({ link, key, customerId }: { link: string; key: string; customerId: string }): Promise<void> {
  const { origin } = new URL(link)
  for (const tokens of [40, 120]) await chat(origin, key, tokens)
  const browser = await launchChromium()
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } })
  const page = await context.newPage()
  await page.goto(link)
  await page.getByRole('textbox', { name: 'Password' }).fill('correct horse battery staple')
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('link', { name: 'Not now' }).click()
  await page.waitForURL(/\/operator/)
  const home = `${origin}/c/${customerId}`
  await shot(page, home, 'home')
  await shot(page, `${home}/usage?days=30`, 'usage')
  await shot(page, `${home}/keys`, 'keys')
  await page.goto(`${home}/activity`)
  await page.getByRole('link', { name: 'demo' }).first().click()
  await page.getByText('Which servers').waitFor()
  await shot(page, page.url(), 'receipt')
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.setViewportSize({ width: 390, height: 780 })
  await shot(page, home, 'home-phone-dark')
  await browser.close()
}

async function shot(page: Page, url: string, name: string): Promise<void> {
  await page.goto(url)
  await settled(page)
  await page.screenshot({ path: join(images, `${name}.png`), animations: 'disabled' })
  console.log(`docs/images/${name}.png`)
}

async function chat(origin: string, key: string, maxTokens: number): Promise<void> {
  const body = { model: 'demo', max_tokens: maxTokens, messages: [{ role: 'user', content: 'What is a switchyard?' }] }
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`The demo answered ${response.status}: ${await response.text()}`)
  await response.text()
}
