import { expect, test } from 'vitest'
import { clientAddressOf, networkOf, readAddressRange, regionOf } from './client-address.ts'

const proxies = ['10.0.0.0/8', '::1', '2001:db8::/32'].map(text => readAddressRange(text)!)

test.each([
  ['without a proxy the header is ignored', '203.0.113.9', ['198.51.100.1'], '203.0.113.9'],
  ['a proxy names the client', '10.1.2.3', ['203.0.113.9'], '203.0.113.9'],
  ['what the client wrote before it does not count', '10.1.2.3', ['1.1.1.1, 203.0.113.9'], '203.0.113.9'],
  ['several proxies', '::1', ['203.0.113.9, 10.0.0.1', '2001:db8::7'], '203.0.113.9'],
  ['IPv4 inside IPv6', '::ffff:10.1.2.3', ['::ffff:203.0.113.9'], '203.0.113.9'],
  ['no address in the header', '10.1.2.3', ['unknown'], '10.1.2.3'],
  ['an octal address is none', '10.1.2.3', ['010.1.2.3'], '10.1.2.3'],
  ['only proxies', '10.1.2.3', ['10.9.9.9'], '10.9.9.9'],
  ['no header', '10.1.2.3', [], '10.1.2.3'],
])('%s', (_, connection, forwardedFor, expected) => {
  expect(clientAddressOf(connection, forwardedFor, proxies)).toBe(expected)
})

test.each([
  ['203.0.113.9', '203.0.113.9'],
  ['::ffff:203.0.113.9', '203.0.113.9'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2:ffff::', '2001:db8:1:2::/64'],
  ['', ''],
])('the network of %s is %s', (address, expected) => {
  expect(networkOf(address)).toBe(expected)
})

test.each([
  ['203.0.113.9', '203.0.0.0/16'],
  ['::ffff:203.0.113.9', '203.0.0.0/16'],
  ['2001:db8:1:2::3', '2001:db8::/32'],
  ['unix', 'unix'],
])('the region of %s is %s', (address, expected) => {
  expect(regionOf(address)).toBe(expected)
})

test.each(['10.0.0.0/33', '10.0.0.0/-1', '10.0.0', 'example.com', '::/129', '10.0.0.0/8/8', ''])(
  '%s is no range',
  text => {
    expect(readAddressRange(text)).toBeUndefined()
  },
)
