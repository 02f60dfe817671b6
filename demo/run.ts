// `npm run demo`: a gateway with simulated hosters, a simulated cloud and customers, to watch in the console. See docs/demo.md.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { loadDemoLanguage } from '../src/wire/demo-model/demo-language.ts'
import { cast, cloudBehaviour, soldModel } from './cast.ts'
import { type ConsoleClient, enterConsole } from './console-client.ts'
import { type DemoGateway, startGateway } from './gateway.ts'
import { joinMarket } from './join-market.ts'
import { makeCustomers } from './make-customers.ts'
import { report } from './report.ts'
import { startSimulatedServer } from './simulated-server.ts'
import { sendTraffic, type TrafficCount } from './traffic.ts'

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '15' }, port: { type: 'string', default: '8080' } },
})
const minutes = Number(values.minutes)
const port = Number(values.port)
if (!(minutes > 0 && minutes <= 1_440) || !(Number.isInteger(port) && port >= 0 && port < 65_536)) {
  console.error('Usage: npm run demo -- [--minutes 15] [--port 8080]. Minutes: above 0, at most 1440.')
  process.exit(2)
}

const PASSWORD = 'simulated market for demos'
const DAYS = 7
const CLOUD = 'simulated-cloud'

const directory = mkdtempSync(join(tmpdir(), 'switchyard-demo-'))
const closing: (() => Promise<unknown> | unknown)[] = []
const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopped.abort())
const janitor = startJanitor()
const parent = process.ppid
// npm was killed, which sends no signal.
setInterval(() => process.ppid !== parent && stopped.abort(), 1_000).unref()

try {
  await demo()
} catch (error) {
  // Ctrl-C while the demo still starts breaks whatever was being done.
  if (!stopped.signal.aborted) throw error
} finally {
  for (const close of closing.reverse()) await close()
  rmSync(directory, { recursive: true, force: true })
  janitor.stdin.end('done\n')
  console.log('Stopped. Nothing of the demo is left on this machine.')
}

async function demo(): Promise<void> {
  console.log('Everything here is simulated but the gateway: no model has weights, and no money is real. Starting ...')
  const language = loadDemoLanguage()
  const cloud = await startSimulatedServer(language, soldModel, cloudBehaviour)
  closing.push(() => cloud.close())
  const gateway = await startGateway(directory, gatewayConfig(cloud.baseUrl), port, onStarted)
  closing.push(() => gateway.stop())
  void gateway.ended.then(() => stopped.abort())
  const operator = await enterConsole(gateway.origin, {
    path: 'welcome',
    link: gateway.welcomeLink,
    password: PASSWORD,
  })
  const market = { directory, gateway, operator, owner: operator, language, closing, onStarted }
  const [early, late] = [cast.filter(each => !each.joinsByAgent), cast.filter(each => each.joinsByAgent)]
  const [customers, ...joined] = await Promise.all([
    makeCustomers(gateway, operator),
    ...early.map(member => joinMarket(market, member)),
  ])
  printWelcome(gateway)

  const count: TrafficCount = { sent: 0, answered: 0, refused: 0, failed: 0 }
  const traffic = { dayS: (minutes * 60) / DAYS, count, signal: stopped.signal }
  const ends = setTimeout(() => stopped.abort(), minutes * 60_000)
  const sending = customers.map(customer => sendTraffic(gateway.origin, customer, traffic))
  const reporting = report(joined, { count, minutes, days: DAYS, signal: stopped.signal })
  await delay(Math.min(20_000, minutes * 10_000), undefined, { signal: stopped.signal }).catch(() => {})
  for (const member of late) {
    if (stopped.signal.aborted) break
    joined.push(await joinMarket({ ...market, owner: await newOwner(gateway) }, member))
    console.log(`${member.name} has joined: ${member.description}.`)
  }
  await Promise.all([...sending, reporting])
  clearTimeout(ends)
  console.log(await gateway.run('hoster', 'list'))
  console.log(await gateway.run('hoster', 'earnings'))
  console.log(await gateway.run('ledger', 'audit'))
}

/** A second person: nobody may own more than five hosters. */
async function newOwner(gateway: DemoGateway): Promise<ConsoleClient> {
  const email = 'newcomer@simulated.example'
  await gateway.run('customer', 'add', email)
  const printed = await gateway.run('customer', 'invite', email)
  const link = /http\S+#\S+/.exec(printed)![0]
  return enterConsole(gateway.origin, { path: 'join', link, password: PASSWORD })
}

function gatewayConfig(cloudUrl: string): object {
  return {
    detect: { enabled: false },
    demo: { enabled: false },
    hosters: { allow_private_urls: true },
    // All hosters are new, and a demo has no week to get to know them.
    routing: { newcomers: { successes: 0 } },
    trust: { audit_minutes: 1, evidence_delay_minutes: 1, references: [CLOUD] },
    status: { public: true },
    endpoints: [
      {
        name: CLOUD,
        kind: 'cloud',
        base_url: cloudUrl,
        models: [
          {
            id: soldModel.id,
            price_per_million_usd: { input: '1.00', output: '4.00' },
            context_tokens: soldModel.contextTokens,
            max_output_tokens: soldModel.maxOutputTokens,
          },
        ],
      },
    ],
  }
}

function printWelcome({ origin }: DemoGateway): void {
  console.log(`
The market is open: ${origin}
  sign in as   you@localhost
  password     ${PASSWORD}

Watch ${origin}/operator, /operator/hosters and /operator/money; the pages of each hoster are in the menu of the account.
A simulated week passes in ${minutes} minutes: the requests follow its days and nights, and the clock of the books is the real one.
${cast.map(({ name, description }) => `  ${name.padEnd(32)}${description}`).join('\n')}

Ctrl-C stops everything and removes it.
`)
}

/** Starts the process that cleans up if this one is killed. It ends at the line `done`. */
function startJanitor() {
  const program = fileURLToPath(new URL('./janitor.ts', import.meta.url))
  // A group of its own: Ctrl-C reaches the others only.
  const started = spawn(process.execPath, [program, directory], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  started.unref()
  started.stdin.on('error', () => {})
  return started
}

/** Names the janitor a process to end. */
function onStarted(pid: number): void {
  janitor.stdin.write(`${pid}\n`)
}
