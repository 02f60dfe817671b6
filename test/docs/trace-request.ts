// Program: serves requests with the whole gateway in this process. Prints, as JSON, for each of `tracedRequests` the source files of which a function ran
// during each of 25 requests, with the longest function of each file. The first argument is the database connection as JSON.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import { createPool, transaction } from '../../src/base/db/pool.ts'
import { http } from '../../src/base/runtime/node-http.ts'
import { MasterKeys } from '../../src/base/secrets/master-keys.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { compose } from '../../src/start/compose/compose.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { configuredOffers } from '../../src/start/config/configured-offers.ts'

const WARM_UP_REQUESTS = 50
/** Enough for some to find room in the bulk lease even when a busy machine refills it late. */
const TRACED_REQUESTS = 25

const connection = JSON.parse(process.argv[2]!)
const directory = mkdtempSync(join(tmpdir(), 'switchyard-trace-'))
const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 }
const completion = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello there' }, finish_reason: 'stop' }],
  usage,
})
const events = [
  { choices: [{ index: 0, delta: { role: 'assistant', content: 'Hello' } }] },
  { choices: [{ index: 0, delta: { content: ' there' } }] },
  { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
  { choices: [], usage },
].map(chunk => `data: ${JSON.stringify(chunk)}\n\n`)
const upstream = http.createServer(async (request, response) => {
  const isStreamed = (await text(request)).includes('"stream":true')
  response.setHeader('content-type', isStreamed ? 'text/event-stream' : 'application/json')
  response.end(isStreamed ? `${events.join('')}data: [DONE]\n\n` : completion)
})
await new Promise<void>(resolve => upstream.listen(0, '127.0.0.1', resolve))
const pool = createPool(connection, { max: 2, applicationName: 'trace' })
const app = await startGateway()
const key = await createKey()
const socket = connect((app.server.server.address() as AddressInfo).port, '127.0.0.1')
const session = new Session()
session.connect()
await session.post('Profiler.enable')
await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
console.log(
  JSON.stringify({
    plainChat: await trace('/v1/chat/completions', { max_tokens: 16 }, '}}'),
    streamedMessages: await trace('/v1/messages', { max_tokens: 16, stream: true }, '\r\n0\r\n\r\n'),
  }),
)

socket.destroy()
await app.close({ drainMs: 1_000 })
await pool.end()
upstream.close()
rmSync(directory, { recursive: true })

async function startGateway() {
  const file = join(directory, 'switchyard.yaml')
  const baseUrl = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`
  const model = '{id: m, price_per_million_usd: {input: 1, output: 2}, context_tokens: 8192, max_output_tokens: 4096}'
  writeFileSync(file, `endpoints:\n  - {name: local, kind: local, base_url: "${baseUrl}", models: [${model}]}\n`)
  const config = loadConfig({ env: { SWITCHYARD_DATA: join(directory, 'data') }, cwd: directory, file })
  const composed = await compose({
    config,
    connection,
    desk: connection,
    masterKeys: new MasterKeys([randomBytes(32)]),
    offers: configuredOffers(config),
    log: pino({ level: 'silent' }),
    version: 'test',
    isOnlyNode: true,
  })
  await composed.server.listen({ host: '127.0.0.1', port: 0 })
  return composed
}

/** The key of a customer with so much credit that it gets a bulk lease. */
function createKey(): Promise<string> {
  return transaction(pool, async sql => {
    const { customerId } = (await addCustomer(sql, { email: 'trace@example.com', accountTier: 'scale' }))!
    await openAccount(sql, customerId, 1_000_000_000_000n)
    return (await issueKey(sql, { name: 'trace', customerId })).key
  })
}

/** @param end the last bytes of each answer */
async function trace(path: string, fields: object, end: string) {
  const request = requestText(path, fields)
  for (let i = 0; i < WARM_UP_REQUESTS; i++) await send(request, end)
  // A file that runs only now and then, such as the heartbeat, is missing from at least one of the traces.
  let ran: Map<string, number> | undefined
  for (let i = 0; i < TRACED_REQUESTS; i++) {
    await session.post('Profiler.takePreciseCoverage')
    await send(request, end)
    const traced = await filesThatRan()
    ran = ran === undefined ? traced : new Map([...ran].filter(([file]) => traced.has(file)))
  }
  return [...ran!].map(([file, longestFunctionLines]) => ({ file, longestFunctionLines }))
}

function requestText(path: string, fields: object): string {
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...fields })
  const head = [`POST ${path} HTTP/1.1`, 'host: gateway', `authorization: Bearer ${key}`]
  return [...head, 'content-type: application/json', `content-length: ${body.length}`, '', body].join('\r\n')
}

function send(request: string, end: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const take = (piece: Buffer) => {
      answer += piece
      if (!answer.endsWith(end)) return
      socket.off('data', take)
      if (answer.startsWith('HTTP/1.1 200')) resolve()
      else reject(new Error(answer))
    }
    socket.on('data', take)
    socket.write(request)
  })
}

/** Files below src/ of which a function ran since the last call, with the lines of the longest function that they declare. */
async function filesThatRan(): Promise<Map<string, number>> {
  const root = new URL('../../', import.meta.url).href
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const files = new Map<string, number>()
  for (const { url, functions } of result) {
    if (!url.startsWith(`${root}src/`) || functions.every(({ ranges }) => ranges[0]!.count === 0)) continue
    // Node blanks types out when it strips them, so offsets are those of the source.
    const source = readFileSync(fileURLToPath(url), 'utf8')
    const lengths = functions.filter(isNamed).map(({ ranges }) => linesIn(source, ranges[0]!))
    files.set(url.slice(root.length), Math.max(0, ...lengths))
  }
  return files
}

function isNamed({ functionName }: { functionName: string }): boolean {
  return functionName !== ''
}

function linesIn(source: string, { startOffset, endOffset }: { startOffset: number; endOffset: number }): number {
  return source.slice(startOffset, endOffset).split('\n').length
}
