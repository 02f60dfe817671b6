import { expect, test } from 'vitest'
import { AllowedHosts } from './allowed-hosts.ts'

const hosts = new AllowedHosts(['gateway.example.com', '*.lan.example.com'])
const refusalOf = (rawHeaders: string[], httpVersion = '1.1', allowed = hosts) => {
  try {
    allowed.require({ rawHeaders, httpVersion })
    return null
  } catch (error) {
    return (error as Error).message
  }
}

test.each([
  '127.0.0.1',
  '127.0.0.1:8080',
  '[::1]:8080',
  '203.0.113.7',
  'localhost:8080',
  'LOCALHOST.',
  'gateway-1:8080',
  'nas.local',
  'switchyard.default.svc.cluster.local:8080',
  'api.internal',
  'gateway.example.com',
  'Gateway.Example.com.:443',
  'a.lan.example.com',
])('%s is allowed, repeatedly', host => {
  expect(refusalOf(['Host', host])).toBeNull()
  expect(refusalOf(['Host', host])).toBeNull()
})

test.each([
  'evil.example.com',
  'example.com',
  'lan.example.com',
  'gateway.example.com.evil.net',
  'rebind.127.0.0.1.nip.io:8080',
  '127.0.0.1.evil.net',
  'evil.net:8080',
  'local.evil.net',
  '[::1].evil.net'.slice(5),
])('%s is foreign', host => {
  expect(refusalOf(['Host', '127.0.0.1'])).toBeNull()
  expect(refusalOf(['Host', host])).toBe(
    `The Host "${host}" is not a name of this server. Use its address, or add the name to server.allowed_hosts.`,
  )
})

test('a star allows every name', () => {
  expect(refusalOf(['Host', 'evil.net'], '1.1', new AllowedHosts(['*']))).toBeNull()
})

test('there must be one Host, except in HTTP/1.0', () => {
  expect(refusalOf([])).toBe('The Host header is missing. Send it once.')
  expect(refusalOf([], '1.0')).toBeNull()
  expect(refusalOf(['Host', 'a', 'hOST', 'a'])).toBe('The Host header was sent more than once. Send it once.')
})
