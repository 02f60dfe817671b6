import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Environment, logTail, pin, type Running, startCommand } from '../process.ts'
import type { Finding, Setting, Subject, Tally } from './subject.ts'

/**
 * Switchyard as an operator starts it: its own process, embedded PostgreSQL (fsync on) under a fresh data directory,
 * a price on the model, and a customer with a key, whose limits are real but far above the load.
 * Authentication, limits, holds, settlement and usage are all on.
 */
export async function startSwitchyard(setting: Setting): Promise<Subject> {
  const { cores, dir } = setting
  const logFile = join(dir, 'switchyard.log')
  const port = await freePort()
  const dataDir = join(dir, 'data')
  const configFile = join(dir, 'switchyard.yaml')
  writeFileSync(configFile, config(setting.upstreamOrigin))
  const env = {
    HOST: '127.0.0.1',
    PORT: String(port),
    SWITCHYARD_DATA: dataDir,
    SWITCHYARD_CONFIG: configFile,
    NODE_ENV: 'production',
    LOG_LEVEL: 'warn',
    // Never somebody's own database: the one under test is new, and thrown away.
    DATABASE_URL: undefined,
  }
  const profileDir = join(dir, 'profile')
  if (setting.profile) mkdirSync(profileDir)
  const flags = setting.profile ? ['--cpu-prof', `--cpu-prof-dir=${profileDir}`] : []

  // It starts on the database's cores and is moved afterwards, so that PostgreSQL, its child, stays behind.
  const gateway = startCommand([process.execPath, ...flags, ...startWords], {
    core: cores?.database,
    logFile,
    cwd: root,
    env,
  })
  const stop = async () => {
    await gateway.stop()
    stopOrphanedPostgres(dataDir)
  }
  try {
    const origin = `http://127.0.0.1:${port}`
    await untilReady(`${origin}/readyz`, gateway, logFile)
    const command = (...args: string[]) => runCli(args, env)
    await command('customer', 'add', customer)
    const { key } = (await command('key', 'issue', customer, '--name', 'bench')) as { key: string }
    pin(gateway.pid, cores?.subject)
    const headers = { authorization: `Bearer ${key}` }
    return {
      url: `${origin}/v1/chat/completions`,
      headers,
      pid: gateway.pid,
      check: sent => checkBooks(origin, headers, sent, () => command('ledger', 'audit')),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

const root = fileURLToPath(new URL('../..', import.meta.url))
// `exec node <flags> src/cli.ts start`, as npm start has it.
const startWords: string[] = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  .scripts.start.replace(/^exec node /, '')
  .split(' ')
const cli = 'src/cli.ts'
const customer = 'bench@example.com'
const creditUsd = 1_000_000
const usdPerMillion = { input: 0.15, output: 0.6 }

// JSON is YAML, too.
function config(upstreamOrigin: string): string {
  return JSON.stringify({
    endpoints: [
      {
        name: 'bench',
        kind: 'local',
        base_url: `${upstreamOrigin}/v1`,
        models: [{ id: 'bench', price_per_million_usd: usdPerMillion }],
      },
    ],
    signup: { tier: 'bench', credit_usd: creditUsd },
    account_tiers: {
      bench: { requests_per_minute: 1e9, requests_per_day: 1e9, daily_spend_cap_usd: creditUsd },
    },
    demo: { enabled: false },
    detect: { enabled: false },
  })
}

/** Every request that was answered must be in the usage, priced to the nano-USD, and the ledger must add up. */
async function checkBooks(
  origin: string,
  headers: Record<string, string>,
  sent: Tally,
  audit: () => Promise<unknown>,
): Promise<Finding[]> {
  const response = await fetch(`${origin}/v1/usage/tokens?days=2&interval=day`, { headers })
  const { totals } = (await response.json()) as {
    totals: { requests: number; input_tokens: number; output_tokens: number; cost_usd: number }
  }
  const pricedNanos = Math.round(
    (totals.input_tokens * usdPerMillion.input + totals.output_tokens * usdPerMillion.output) * 1e3,
  )
  const costNanos = Math.round(totals.cost_usd * 1e9)
  const auditFailure = await audit().then(
    () => null,
    (error: Error) => error.message,
  )
  return [
    {
      ok: totals.requests === sent.sent,
      text: `switchyard: ${totals.requests} usage rows for ${sent.sent} requests`,
    },
    {
      ok: costNanos > 0 && costNanos === pricedNanos,
      text: `switchyard: charged ${totals.cost_usd} USD for ${totals.input_tokens} input and ${totals.output_tokens} output tokens`,
    },
    { ok: auditFailure === null, text: `switchyard: ledger audit ${auditFailure ?? 'clean'}` },
  ]
}

async function runCli(args: string[], env: Environment): Promise<unknown> {
  const { stdout } = await promisify(execFile)(process.execPath, [cli, ...args, '--json'], {
    cwd: root,
    env: { ...process.env, ...env },
    timeout: 60_000,
  })
  return JSON.parse(stdout)
}

async function untilReady(url: string, gateway: Running, logFile: string): Promise<void> {
  const deadlineMs = performance.now() + 60_000
  while (performance.now() < deadlineMs) {
    if (gateway.process.exitCode !== null) throw new Error(`switchyard did not start${logTail(logFile)}`)
    const isReady = await fetch(url).then(
      response => response.ok,
      () => false,
    )
    if (isReady) return
    await delay(50)
  }
  throw new Error(`switchyard was not ready within 60 s${logTail(logFile)}`)
}

/** A gateway that had to be killed leaves its PostgreSQL behind; its pid is in the first line of postmaster.pid. */
function stopOrphanedPostgres(dataDir: string): void {
  if (!existsSync(dataDir)) return
  const files = readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
  for (const file of files.filter(name => name.endsWith('postmaster.pid'))) {
    const pid = Number(readFileSync(join(dataDir, file), 'utf8').split('\n')[0])
    // SIGQUIT is PostgreSQL's immediate shutdown: the data is thrown away anyway.
    if (pid > 1) process.kill(pid, 'SIGQUIT')
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}
