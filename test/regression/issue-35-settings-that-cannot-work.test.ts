import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { checkPublicUrl } from '../../src/cli/doctor/check-machine.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { parseOutboundUrl } from '../../src/wire/egress/outbound-url.ts'

const directory = mkdtempSync(join(tmpdir(), 'switchyard-settings-'))
afterAll(() => rmSync(directory, { recursive: true }))

/** The message of the refusal, which doctor shows too. */
function refusal(yaml: string, env: Record<string, string> = {}, port?: number): string {
  writeFileSync(join(directory, 'switchyard.yaml'), yaml)
  try {
    loadConfig({ env, cwd: directory, port })
    return 'accepted'
  } catch (error) {
    return (error as Error).message
  }
}

const endpoint = (url: string) =>
  `endpoints: [{ name: a, kind: local, base_url: ${JSON.stringify(url)}, models: [{ id: m, price_per_million_usd: { input: 1, output: 1 } }] }]`

test.each([
  ['http://10.0.0.5:8000/v1', 'accepted'],
  ['http://model_server:8000/v1/', 'accepted'],
  [
    'http://10.0.0.5:8000/v1/chat/completions',
    'ends in /chat/completions, which the gateway adds itself; write http://10.0.0.5:8000/v1',
  ],
  [
    'http://10.0.0.5:8000/v1/responses/',
    'ends in /responses, which the gateway adds itself; write http://10.0.0.5:8000/v1',
  ],
  ['http://10.0.0.5:8000/v1/messages', 'ends in /messages'],
  ['http://10.0.0.5:8000/v1/embeddings', 'ends in /embeddings'],
  ['http://10.0.0.5:8000/v1?key=secret', 'has a query or a fragment'],
  ['http://10.0.0.5:8000/v1 ', 'contains spaces'],
  ['10.0.0.5:8000/v1', 'it must be an http or https URL'],
  ['http://key@10.0.0.5/v1', 'is "http://***@10.0.0.5/v1"; it must be an http or https URL'],
  ['https://a..b/v1', 'cannot be reached: its host name has an empty part between two dots'],
  ['https://-a.com-/v1', 'cannot be reached: its host name has the part "-a"'],
])('base_url %s: %s', (url, expected) => {
  expect(refusal(endpoint(url))).toContain(expected)
})

test('public_base_url has no path, because the gateway serves at the root of its name', () => {
  expect(refusal('server: { public_base_url: "https://a.example/v1" }')).toBe('accepted')
  expect(refusal('server: { public_base_url: "https://a.example/gateway" }')).toContain(
    'has the path /gateway, and the gateway serves at the root of its name; write https://a.example',
  )
})

test('metrics need a port of their own, also when the environment or --port sets one', () => {
  expect(refusal('server: { port: 9464 }')).toContain(
    'metrics.port is 9464, and so is server.port, PORT or --port; write another port, such as 9465',
  )
  expect(refusal('', { PORT: '9464' })).toContain('metrics.port is 9464')
  expect(refusal('metrics: { enabled: false }', { PORT: '9464' })).toBe('accepted')
  expect(refusal('', { PORT: '0', METRICS_PORT: '0' })).toBe('accepted')
  expect(refusal('', {}, 9464)).toContain('metrics.port is 9464')
  expect(refusal('server: { port: 9464 }', { PORT: '9464' }, 8080)).toBe('accepted')
})

test.each([
  ['http://gateway.example.com', true],
  ['http://93.184.216.34:8080', true],
  ['https://gateway.example.com', false],
  ['http://localhost:8080', false],
  ['http://10.0.0.5:8080', false],
  ['http://gateway.lan', false],
])('doctor warns of a public name without TLS: %s is %s', (url, isWarned) => {
  writeFileSync(join(directory, 'switchyard.yaml'), `server: { public_base_url: "${url}" }`)
  const findings = checkPublicUrl(loadConfig({ env: {}, cwd: directory }))
  expect(findings.map(({ ok, warning }) => ({ ok, warning }))).toEqual(isWarned ? [{ ok: true, warning: true }] : [])
})

test('an issuer of sign-in has a name that can exist', () => {
  const oidc = (issuer: string) =>
    `accounts: { oidc: [{ id: a, name: A, issuer: "${issuer}", client_id: x, client_secret: y }] }`
  expect(refusal(oidc('https://-a.com-/'))).toContain('it must be an https URL')
  expect(refusal(oidc('https://a..b/'))).toContain('it must be an https URL')
})

test.each(['https://a..b/', 'https://-a.com-/', 'https://a_b.com/', `https://${'a'.repeat(64)}.com/`])(
  'webhooks and hosters at %s are refused, also where private addresses are allowed',
  url => {
    const rules = { allowQuery: true }
    expect(parseOutboundUrl(url, { ...rules, allowPrivate: false })).toMatch(/^its host name has /)
    if (!url.includes('_'))
      expect(parseOutboundUrl(url, { ...rules, allowPrivate: true })).toMatch(/^its host name has /)
  },
)

test('names in other letters are refused in their ASCII form only when they are wrong there', () => {
  const rules = { allowPrivate: false, allowQuery: false }
  expect(parseOutboundUrl('https://bücher.de/v1', rules)).toMatchObject({ hostname: 'xn--bcher-kva.de' })
})
