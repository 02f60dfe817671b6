import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Agent, agents, type Gateway } from './agents.ts'
import { type ComplianceResult, checkOpenResponses } from './open-responses.ts'
import { MODEL, startScriptedModel, type Task, type Turn } from './scripted-model.ts'
import { command, run, type StartedGateway, startGateway } from './start-gateway.ts'

// npm run clients: lets real coding agents write and read a file through a Switchyard with a scripted model, each in a
// throw-away home directory and with its default settings. Then each meets a wrong key, a used-up key limit and a
// used-up day. Then the compliance suite of Open Responses runs. Exits with 1 if one of them fails.

const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('..', import.meta.url))
const AGENT_MS_MAX = 180_000
/** Long enough for the retries of an agent that gives up. */
const REFUSED_MS_MAX = 45_000

interface Result {
  readonly agent: Agent
  readonly version: string
  readonly turns: readonly Turn[]
  /** What the agent asked for, and what it got, from the receipt of its first request with tools. */
  readonly clamp: { readonly asked: number; readonly allowed: number } | null
  /** How long the agent took until it gave up, by status. */
  readonly retries: readonly string[]
  /** What did not work; empty if everything did. */
  readonly faults: readonly string[]
  readonly output: string
}

await main(process.argv.slice(2))

async function main(names: readonly string[]): Promise<void> {
  await install()
  const chosen = agents.filter(({ name }) => names.length === 0 || names.includes(name))
  const results: Result[] = []
  for (const agent of chosen) {
    const result = await check(agent)
    results.push(result)
    console.log(rowOf(result))
    if (result.faults.length > 0) console.log(`${result.faults.join('\n')}\n${result.output.slice(-3_000)}`)
  }
  const compliance = names.length === 0 || names.includes('open-responses') ? await checkOpenResponses() : []
  for (const each of compliance) console.log(complianceRow(each))
  if (names.length === 0) writeFileSync(join(root, 'bench/results/clients.md'), reportOf(results, compliance))
  const hasFailed = compliance.some(each => each.results.some(({ status }) => status !== 'passed'))
  process.exitCode = hasFailed || results.some(({ faults }) => faults.length > 0) ? 1 : 0
}

/** The configuration of a gateway with the scripted model as its only server. */
function configFor(upstream: string): string {
  const price = '{ input: 0.1, output: 0.4 }'
  const model = `{ id: ${MODEL}, price_per_million_usd: ${price} }`
  const endpoint = `{ name: scripted, kind: local, base_url: ${upstream}, models: [${model}] }`
  return `demo: { enabled: false }\nsettlement: commit\nendpoints: [${endpoint}]\n`
}

/** Installs the agents, unless they are installed already. opencode and Claude Code link their programs afterwards. */
async function install(): Promise<void> {
  const { dependencies } = readJson<{ dependencies: Record<string, string> }>(join(here, 'package.json'))
  if (Object.entries(dependencies).every(([name, version]) => installedVersion(name) === version)) return
  // Not `npm ci`: it refuses the lock file if the registry lacks an optional package of another platform.
  await run('npm', ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: here })
  await run(process.execPath, ['postinstall.mjs'], { cwd: join(here, 'node_modules/opencode-ai') })
  await run(process.execPath, ['install.cjs'], { cwd: join(here, 'node_modules/@anthropic-ai/claude-code') })
}

function installedVersion(name: string): string | undefined {
  const path = join(here, 'node_modules', name, 'package.json')
  return existsSync(path) ? readJson<{ version: string }>(path).version : undefined
}

function readJson<T>(path: string): T {
  return JSON.parse(readFileSync(path, 'utf8')) as T
}

async function check(agent: Agent): Promise<Result> {
  const home = mkdtempSync(join(tmpdir(), `switchyard-${agent.name}-`))
  const project = join(home, 'project')
  mkdirSync(project)
  const content = `signal ${Math.random().toString(36).slice(2)}`
  const task: Task = { path: join(project, 'signal.txt'), content }
  await using model = await disposable(await startScriptedModel(task))
  await using gateway = await startGateway(home, configFor(model.baseUrl))
  const prompt = `Write "${content}" into the file ${task.path}, read it, and tell me what it says.`
  const creditNanos = await balanceNanos(gateway)
  const ended = await runAgent(agent, gateway, { home, project, prompt })
  const receipts = await receiptsOf(gateway)
  const paidNanos = creditNanos - (await balanceNanos(gateway))
  const billedNanos = receipts.reduce((sum, { cost_usd }) => sum + nanosOf(cost_usd), 0)
  const faults = [
    ...(ended.code === 0 ? [] : [`ended with ${ended.code}`]),
    ...(model.turns.length === 3 ? [] : [`${model.turns.length} requests with tools instead of 3`]),
    ...(existsSync(task.path) && readFileSync(task.path, 'utf8').includes(content) ? [] : ['the file was not written']),
    ...(ended.output.includes(`The file says: ${content}`) ? [] : ['the final answer was not shown']),
    ...receipts.filter(({ success }) => !success).map(({ outcome }) => `a request ended as ${outcome}`),
    ...(paidNanos === billedNanos && paidNanos > 0 ? [] : [`paid ${paidNanos} nano-USD, receipts ${billedNanos}`]),
  ]
  const retries: string[] = []
  for (const refusal of await refusalsOf(gateway)) {
    const errand = { home, project, prompt, timeoutMs: REFUSED_MS_MAX }
    const refused = await runAgent(agent, { ...gateway, apiKey: refusal.apiKey }, errand)
    // Some agents wait for the time of Retry-After, which is the next day.
    const waits = refused.code === 'SIGKILL'
    if (!waits && !refusal.shown.test(refused.output)) {
      faults.push(`does not show the ${refusal.status}:\n${refused.output}`)
    }
    retries.push(waits ? `${refusal.status}: waits` : `${refusal.status} in ${refused.seconds} s`)
  }
  const clamp = receipts.map(({ max_tokens_clamp }) => max_tokens_clamp).find(found => found !== null) ?? null
  if (process.env.KEEP_HOMES === undefined) rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  return {
    agent,
    version: installedVersion(agent.package)!,
    turns: [...model.turns],
    clamp,
    retries,
    faults,
    output: ended.output,
  }
}

interface Errand {
  readonly home: string
  readonly project: string
  readonly prompt: string
  readonly timeoutMs?: number
}

async function runAgent(agent: Agent, gateway: Gateway, { home, project, prompt, timeoutMs = AGENT_MS_MAX }: Errand) {
  for (const [path, text] of Object.entries(agent.files(gateway))) {
    mkdirSync(dirname(join(home, path)), { recursive: true })
    writeFileSync(join(home, path), text)
  }
  const args = agent.args(prompt).map(arg => (arg.startsWith('.continue/') ? join(home, arg) : arg))
  const startedMs = performance.now()
  const ended = await run(join(here, 'node_modules', agent.program), args, {
    cwd: project,
    env: {
      HOME: home,
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      TERM: 'dumb',
      NO_COLOR: '1',
      ...agent.env(gateway),
    },
    timeoutMs,
    mayFail: true,
  })
  return { ...ended, seconds: Math.round((performance.now() - startedMs) / 1_000) }
}

interface Refusal {
  readonly status: number
  readonly apiKey: string
  /** What an agent shows of it. */
  readonly shown: RegExp
}

/** Makes keys that are refused: an unknown one, one at its spend limit, and one whose day is used up. */
async function refusalsOf(gateway: StartedGateway): Promise<Refusal[]> {
  for (const name of ['poor', 'limited']) await command(gateway, 'customer', 'add', `${name}@example.com`)
  const poor = await command(
    gateway,
    'key',
    'issue',
    'poor@example.com',
    '--name',
    'agent',
    '--limit-usd',
    '0.000000001',
  )
  const { key: apiKey } = await command(gateway, 'key', 'issue', 'limited@example.com', '--name', 'agent')
  await command(gateway, 'customer', 'limits', 'limited@example.com', '--requests-per-day', '1')
  const response = await fetch(`${gateway.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }),
  })
  if (!response.ok) throw new Error(`The request that uses up the day: ${response.status} ${await response.text()}`)
  return [
    // Claude Code shows a text of its own.
    { status: 401, apiKey: 'sk-sy-wrong', shown: /API key|Not logged in/ },
    { status: 402, apiKey: poor.key, shown: /spend limit/i },
    { status: 429, apiKey, shown: /requests per day|usage limit/i },
  ]
}

function nanosOf(usd: number): number {
  return Math.round(usd * 1e9)
}

async function balanceNanos(gateway: Gateway): Promise<number> {
  const { balance_usd } = (await get(gateway, '/credits')) as { balance_usd: number }
  return nanosOf(balance_usd)
}

async function get({ baseUrl, apiKey }: Gateway, path: string): Promise<unknown> {
  const response = await fetch(`${baseUrl}${path}`, { headers: { authorization: `Bearer ${apiKey}` } })
  if (!response.ok) throw new Error(`GET ${path}: ${response.status} ${await response.text()}`)
  return response.json()
}

interface Receipt {
  readonly success: boolean
  readonly cost_usd: number
  readonly outcome: string
  readonly max_tokens_clamp: Result['clamp']
}

async function receiptsOf(gateway: Gateway): Promise<Receipt[]> {
  const { data } = (await get(gateway, '/usage/requests')) as { data: { id: string }[] }
  return Promise.all(data.map(({ id }) => get(gateway, `/usage/requests/${id}`) as Promise<Receipt>))
}

async function disposable<T extends { close(): Promise<void> }>(resource: T): Promise<T & AsyncDisposable> {
  return Object.assign(resource, { [Symbol.asyncDispose]: () => resource.close() })
}

function rowOf({ agent, version, turns, clamp, retries, faults }: Result): string {
  const asked = clamp === null ? 'no more than fits' : `${clamp.asked}, got ${clamp.allowed}`
  const tools = turns[0]?.tools ?? 0
  return `| ${agent.name} ${version} | ${faults.length === 0 ? 'pass' : 'FAIL'} | ${turns.map(({ calls }) => calls ?? 'text').join(', ')} | ${tools} | ${asked} | ${retries.join(', ')} |`
}

function complianceRow({ dialect, results }: ComplianceResult): string {
  const failed = results.filter(({ status }) => status !== 'passed')
  const named = failed.map(({ id, errors = [] }) => `${id}: ${errors.join(' ')}`).join('; ') || '-'
  return `| ${dialect} | ${results.length - failed.length} of ${results.length} | ${named} |`
}

function reportOf(results: readonly Result[], compliance: readonly ComplianceResult[]): string {
  const passed = results.filter(({ faults }) => faults.length === 0).length
  return `# Coding agents

${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}: ${passed} of ${results.length} passed. Written by \`npm run clients\`.

Each agent ran with the configuration of its page in [docs/clients](../../docs/clients/README.md) and its own defaults, in an empty home directory, against a
Switchyard with one scripted model with a context of 32,768 tokens. It passes if it makes two tool calls (write a file, read it), shows the final answer, and
every request is served. The balance must fall by the sum of the receipts, to the nano-USD. Then it must show the reason of a 401, a 402 and a 429; the last column has the
seconds until it gave up, or that it still waited after 45 s.

| agent | result | calls | tools offered | \`max_tokens\` asked | refusals |
| --- | --- | --- | ---: | --- | --- |
${results.map(rowOf).join('\n')}

# Open Responses

The compliance suite of [Open Responses](https://www.openresponses.org), with a scripted server of each dialect behind the gateway.

| servers | passed | failed |
| --- | --- | --- |
${compliance.map(complianceRow).join('\n')}
`
}
