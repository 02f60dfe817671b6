import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { command, run, type StartedGateway, startGateway } from './start-gateway.ts'

// npm run clients:openapi: Schemathesis reads /openapi.json of a new gateway and sends requests that follow it and requests that do
// not, with the key of a customer, with that of a hoster, and without one. Every answer must be documented, with its status,
// type, headers and body; none may be a 5xx, and none may accept what the document forbids. Needs Python 3 with venv.

const here = fileURLToPath(new URL('.', import.meta.url))
const environment = join(here, '.venv')
const program = join(environment, 'bin', 'schemathesis')

/** How many random requests each operation gets, besides the examples and the boundaries of every value. */
const REQUESTS = Number(process.argv[2] ?? 20)

/** There is no check that all requests that follow the document are served: no schema says which cursors exist, or which fields go together. */
const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
  'ignored_auth',
]

interface Pass {
  readonly name: string
  readonly key: string | null
  readonly phases: string
  /** Options that select the operations. */
  readonly operations: readonly string[]
}

const everyPhase = 'examples,coverage,fuzzing'
/** Hosters can retire and stop themselves, which would end the pass. */
const ofHosters = ['--include-path-regex', '^/v1/hoster(/|$)', '--exclude-path', '/v1/hoster/state']
const ofOthers = ['--exclude-path-regex', '^/v1/hoster(/|$)']

const LIMITS = '{ requests_per_minute: 1000000, requests_per_day: 100000000, daily_spend_cap_usd: "1000000" }'
const config = `
account_tiers: { free: ${LIMITS}, standard: ${LIMITS} }
reports: { requests_per_minute: 1000000 }
`

await main()

async function main(): Promise<void> {
  await install()
  const home = mkdtempSync(join(tmpdir(), 'switchyard-openapi-'))
  try {
    await using gateway = await startGateway(home, config)
    const document = join(home, 'openapi.json')
    const openapi = await fetch(new URL('/openapi.json', gateway.baseUrl))
    writeFileSync(document, await openapi.text())
    for (const pass of await passesOf(gateway)) {
      const { code, output } = await check(document, gateway, pass)
      const counted = /^ *\d+ generated.*$/m.exec(output)?.[0].trim()
      const passed = code === 0 && counted !== undefined
      console.log(`${passed ? 'ok    ' : 'FAILED'} ${pass.name}: ${counted ?? 'no request was sent'}`)
      if (passed) continue
      console.log(output)
      process.exitCode = 1
    }
  } finally {
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function install(): Promise<void> {
  if (!existsSync(program)) await run('python3', ['-m', 'venv', environment], { cwd: here })
  await run(join(environment, 'bin', 'pip'), ['install', '--quiet', '--requirement', 'requirements.txt'], { cwd: here })
}

async function passesOf(gateway: StartedGateway): Promise<Pass[]> {
  await command(
    gateway,
    'credit',
    'grant',
    'you@localhost',
    '10000',
    '--paid',
    '--reason',
    'a test',
    '--ref',
    'openapi',
    '--yes',
  )
  const customer = await command(gateway, 'key', 'issue', 'you@localhost', '--name', 'openapi', '--scope', 'manage')
  await command(gateway, 'hoster', 'add', 'acme', 'https://models.example.com/v1', '--key', 'none')
  const scopes = 'serve,manage,read'
  const hoster = await command(gateway, 'hoster', 'key', 'issue', 'acme', '--name', 'openapi', '--scope', scopes)
  return [
    { name: 'customer', key: customer.key, phases: everyPhase, operations: ofOthers },
    { name: 'hoster', key: hoster.key, phases: everyPhase, operations: ofHosters },
    // The gateway does not read the bodies of strangers, so their boundaries would prove nothing.
    { name: 'stranger', key: null, phases: 'examples,fuzzing', operations: [] },
  ]
}

function check(document: string, { baseUrl, directory }: StartedGateway, { key, phases, operations }: Pass) {
  const args = [
    ...['run', document, '--url', new URL(baseUrl).origin, '--no-color', '--continue-on-failure', '--warnings', 'off'],
    ...['--phases', phases, '--checks', checks.join(','), '--seed', '1'],
    ...['--max-examples', String(REQUESTS), '--request-timeout', '30', ...operations],
    ...(key === null ? [] : ['--header', `Authorization: Bearer ${key}`]),
  ]
  return run(program, args, { cwd: directory, mayFail: true })
}
