import { expect, test } from 'vitest'
import { siteOf } from './passkey-service.ts'

test.each([
  [
    'https://gateway.example.com',
    '10.0.0.1:8080',
    { rpId: 'gateway.example.com', origin: 'https://gateway.example.com' },
  ],
  ['https://gateway.example.com:8443', '', { rpId: 'gateway.example.com', origin: 'https://gateway.example.com:8443' }],
  ['http://localhost:8080', '', { rpId: 'localhost', origin: 'http://localhost:8080' }],
  ['http://gateway.example.com', 'localhost', null],
  ['https://203.0.113.1', 'localhost', null],
  ['https://[2001:db8::1]', 'localhost', null],
  [null, 'localhost:8080', { rpId: 'localhost', origin: 'http://localhost:8080' }],
  [null, '127.0.0.1:8080', null],
  [null, 'gateway.example.com', null],
  [null, '', null],
])('public_base_url %s and the host "%s" give %o', (publicBaseUrl, host, site) => {
  expect(siteOf({ raw: { headers: { host } } } as never, publicBaseUrl)).toEqual(site)
})
