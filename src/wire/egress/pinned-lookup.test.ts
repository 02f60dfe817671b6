import type { LookupAddress, LookupOptions } from 'node:dns'
import { expect, test } from 'vitest'
import { createPinnedLookup } from './pinned-lookup.ts'

const v4 = (address: string): LookupAddress => ({ address, family: 4 })
const v6 = (address: string): LookupAddress => ({ address, family: 6 })

/** Returns what a socket would get: an address, all addresses, or the code of the error. */
function lookUp(addresses: LookupAddress[] | Error, options: LookupOptions = {}): Promise<unknown> {
  const lookup = createPinnedLookup(async () => {
    if (addresses instanceof Error) throw addresses
    return addresses
  })
  return new Promise(resolve => {
    lookup('models.acme.dev', options, (error, address) => resolve(error ? error.code : address))
  })
}

test('returns the address that it checked', async () => {
  expect(await lookUp([v4('1.1.1.1')])).toBe('1.1.1.1')
  expect(await lookUp([v4('1.1.1.1'), v6('2606:4700::1111')], { all: true })).toEqual([
    v4('1.1.1.1'),
    v6('2606:4700::1111'),
  ])
  expect(await lookUp([v4('1.1.1.1'), v6('2606:4700::1111')], { family: 6 })).toBe('2606:4700::1111')
})

test('one private address refuses the name, whichever family the socket wants', async () => {
  expect(await lookUp([v4('1.1.1.1'), v4('10.0.0.5')], { all: true })).toBe('EADDRNOTPUBLIC')
  expect(await lookUp([v4('1.1.1.1'), v6('::ffff:169.254.169.254')], { family: 4 })).toBe('EADDRNOTPUBLIC')
  expect(await lookUp([v6('fd00::1')])).toBe('EADDRNOTPUBLIC')
})

test('a name without addresses is an error', async () => {
  expect(await lookUp([])).toBe('ENOTFOUND')
  expect(await lookUp([v4('1.1.1.1')], { family: 6 })).toBe('ENOTFOUND')
  expect(await lookUp(Object.assign(new Error('no'), { code: 'EAI_AGAIN' }))).toBe('EAI_AGAIN')
})

test('a name that becomes private is refused at the next lookup', async () => {
  const answers = [[v4('1.1.1.1')], [v4('10.0.0.5')]]
  const lookup = createPinnedLookup(async () => answers.shift()!)
  const next = () => new Promise(resolve => lookup('models.acme.dev', {}, (error, at) => resolve(error?.code ?? at)))
  expect(await next()).toBe('1.1.1.1')
  expect(await next()).toBe('EADDRNOTPUBLIC')
})

test('concurrent lookups of a name share one answer', async () => {
  const answer = Promise.withResolvers<LookupAddress[]>()
  let asked = 0
  const lookup = createPinnedLookup(() => {
    asked++
    return answer.promise
  })
  const next = () => new Promise(resolve => lookup('models.acme.dev', {}, (error, at) => resolve(error?.code ?? at)))
  const both = [next(), next()]
  answer.resolve([v4('1.1.1.1')])
  expect(await Promise.all(both)).toEqual(['1.1.1.1', '1.1.1.1'])
  expect(asked).toBe(1)
})
