import { describe, expect, test } from 'vitest'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { isPublicAddress } from '../../../wire/egress/public-address.ts'
import { checkHosterUrl } from './check-hoster.ts'

const publicOnly = { allowPrivate: false }

describe('refused', () => {
  test.each([
    // Case 28: every spelling the URL parser turns into 127.0.0.1 or 0.0.0.0.
    ['28', 'https://127.0.0.1/v1'],
    ['28', 'https://0x7f.1/v1'],
    ['28', 'https://0177.0.0.1/v1'],
    ['28', 'https://2130706433/v1'],
    ['28', 'https://127.1/v1'],
    ['28', 'https://0/v1'],
    ['28', 'https://１２７.０.０.１/v1'],
    ['28', 'https://127。0。0。1/v1'],
    ['28', 'https://%31%32%37.0.0.1/v1'],
    // Case 29: private, reserved, metadata and tunnelled addresses.
    ['29', 'https://10.0.0.5/v1'],
    ['29', 'https://172.16.0.1/v1'],
    ['29', 'https://192.168.1.1/v1'],
    ['29', 'https://100.64.0.1/v1'],
    ['29', 'https://192.0.0.192/v1'],
    ['29', 'https://169.254.169.254/v1'],
    ['29', 'https://100.100.100.200/v1'],
    ['29', 'https://168.63.129.16/v1'],
    ['29', 'https://224.0.0.1/v1'],
    ['29', 'https://255.255.255.255/v1'],
    ['29', 'https://203.0.113.7/v1'],
    ['29', 'https://[::]/v1'],
    ['29', 'https://[::1]/v1'],
    ['29', 'https://[::ffff:127.0.0.1]/v1'],
    ['29', 'https://[::ffff:a9fe:a9fe]/v1'],
    ['29', 'https://[::127.0.0.1]/v1'],
    ['29', 'https://[64:ff9b::a9fe:a9fe]/v1'],
    ['29', 'https://[64:ff9b:1::808:808]/v1'],
    ['29', 'https://[2002:7f00:1::]/v1'],
    ['29', 'https://[2001:db8::1]/v1'],
    ['29', 'https://[fe80::1]/v1'],
    ['29', 'https://[fec0::1]/v1'],
    ['29', 'https://[fc00::1]/v1'],
    ['29', 'https://[fd12:3456::1]/v1'],
    ['29', 'https://[ff02::1]/v1'],
    // Case 30: local names, names that resolve to any address, and URL parser tricks.
    ['30', 'https://localhost/v1'],
    ['30', 'https://LOCALHOST/v1'],
    ['30', 'https://localhost./v1'],
    ['30', 'https://models.example.org./v1'],
    ['30', 'https://app.localhost/v1'],
    ['30', 'https://printer.local/v1'],
    ['30', 'https://metadata.google.internal/v1'],
    ['30', 'https://gateway/v1'],
    ['30', 'https://nas.home.arpa/v1'],
    ['30', 'https://gpu.lan/v1'],
    ['30', 'https://gpu.internal/v1'],
    ['30', 'https://vllm.service.consul/v1'],
    ['30', 'https://VLLM.Service.Consul/v1'],
    ['30', 'https://vllm.default.svc/v1'],
    ['30', 'https://vllm.default.svc.cluster.local/v1'],
    ['30', 'https://vllm.docker/v1'],
    ['30', 'https://vllm.alt/v1'],
    ['30', 'https://vllm.123/v1'],
    ['30', 'https://10.0.0.5.nip.io/v1'],
    ['30', 'https://10-0-0-5.sslip.io/v1'],
    ['30', 'https://evil.com@127.0.0.1/v1'],
    ['30', 'https://user:secret@models.acme.dev/v1'],
    ['30', 'https://models.acme.dev\\@127.0.0.1/v1'],
    ['30', 'https:\\\\127.0.0.1/v1'],
    ['30', 'https://127.0\t.0.1/v1'],
    ['30', 'https://models.acme.dev/v1\n'],
    ['30', ' https://models.acme.dev/v1'],
    ['30', 'https://models.acme.dev/v1?key=1'],
    ['30', 'https://models.acme.dev/v1#x'],
    // Case 32: other protocols and ports.
    ['32', 'http://models.acme.dev/v1'],
    ['32', 'file:///etc/passwd'],
    ['32', 'gopher://models.acme.dev/'],
    ['32', 'ftp://models.acme.dev/'],
    ['32', 'javascript:alert(1)'],
    ['32', 'https://models.acme.dev:25/v1'],
    ['32', 'https://models.acme.dev:6379/v1'],
    ['32', 'https://models.acme.dev:80/v1'],
    ['32', 'models.acme.dev/v1'],
    ['32', ''],
  ])('case %s: %j', (_, url) => {
    expect(() => checkHosterUrl(url, publicOnly)).toThrow(SupplyError)
  })
})

test.each([
  ['https://models.acme.dev/v1', 'https://models.acme.dev/v1'],
  ['https://models.acme.dev/v1/', 'https://models.acme.dev/v1'],
  ['https://models.acme.dev', 'https://models.acme.dev'],
  ['https://models.acme.dev:443/v1', 'https://models.acme.dev/v1'],
  ['https://MODELS.acme.dev:8443/v1//', 'https://models.acme.dev:8443/v1'],
  ['https://consul.acme.dev/v1', 'https://consul.acme.dev/v1'],
  ['https://localhost.acme.dev/v1', 'https://localhost.acme.dev/v1'],
  ['https://notlocal.dev/v1', 'https://notlocal.dev/v1'],
  ['https://8.8.8.8/v1', 'https://8.8.8.8/v1'],
  ['https://[2606:4700::1111]/v1', 'https://[2606:4700::1111]/v1'],
])('%s is accepted as %s', (url, accepted) => {
  expect(checkHosterUrl(url, publicOnly)).toBe(accepted)
})

test('an operator can allow private addresses, but neither credentials in the URL nor other protocols', () => {
  const allowed = { allowPrivate: true }
  expect(checkHosterUrl('http://127.0.0.1:11434/v1/', allowed)).toBe('http://127.0.0.1:11434/v1')
  expect(checkHosterUrl('http://gpu-box:8000/v1', allowed)).toBe('http://gpu-box:8000/v1')
  expect(checkHosterUrl('http://vllm.service.consul/v1', allowed)).toBe('http://vllm.service.consul/v1')
  expect(() => checkHosterUrl('http://a:b@127.0.0.1/v1', allowed)).toThrow('user name')
  expect(() => checkHosterUrl('file:///etc/passwd', allowed)).toThrow('https://')
})

test('a refusal names the setting if and only if the setting helps', () => {
  const refusal = (url: string, allowPrivate: boolean) => {
    try {
      return checkHosterUrl(url, { allowPrivate })
    } catch (error) {
      return (error as Error).message
    }
  }
  const advice =
    'To use your own server on a private network, set hosters.allow_private_urls: true in switchyard.yaml and restart the gateway.'
  expect(refusal('http://models.acme.dev/v1', false)).toBe(
    `This hoster URL is refused: it must start with https://. ${advice}`,
  )
  expect(refusal('https://10.0.0.5/v1', false)).toBe(
    `This hoster URL is refused: 10.0.0.5 is a private or reserved address. ${advice}`,
  )
  for (const allowPrivate of [true, false]) {
    for (const url of ['http://user:pw@127.0.0.1:18444/v1', 'ftp://x/v1', 'notaurl', 'https://a.acme.dev/v1?x'])
      expect(refusal(url, allowPrivate), url).not.toContain('allow_private_urls')
  }
  expect(refusal('ftp://x/v1', true)).toBe('This hoster URL is refused: it must start with https:// or http://.')
})

test.each(['', 'localhost', '1.2.3', 'fe80::1%eth0', '::ffff:10.0.0.1', '64:ff9b::10.0.0.1', '3ffe::zz'])(
  '%j is no public address',
  address => {
    expect(isPublicAddress(address)).toBe(false)
  },
)

test.each(['1.1.1.1', '::ffff:1.1.1.1', '64:ff9b::1.1.1.1', '2a00:1450:4001::200e'])(
  '%s is a public address',
  address => {
    expect(isPublicAddress(address)).toBe(true)
  },
)
