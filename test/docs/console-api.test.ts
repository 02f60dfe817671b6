import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { autoTopUpEndpoints } from '../../src/http/endpoints/auto-top-up.ts'
import { customerData } from '../../src/http/endpoints/customer-data.ts'
import { live } from '../../src/http/endpoints/live.ts'
import { operatorEndpoints } from '../../src/http/endpoints/operator/operator-endpoints.ts'
import { paymentEndpoints } from '../../src/http/endpoints/payments.ts'
import { personalDataEndpoints } from '../../src/http/endpoints/personal-data.ts'
import { playgroundKey } from '../../src/http/endpoints/playground-key.ts'
import { requestSharingEndpoints } from '../../src/http/endpoints/request-sharing.ts'
import { earningsEndpoints } from '../../src/http/hosters/earnings-endpoints.ts'
import { hosterInviteEndpoints } from '../../src/http/hosters/hoster-invites.ts'
import { hosterPeopleEndpoints } from '../../src/http/hosters/hoster-people.ts'
import { readPage, tableRows } from './page.ts'

const PREFIX = '/console/api/operator/'

test('docs/console.md names every page of the console', () => {
  // The build writes this list from the routes. Pages without a title are those before the sign-in, and the status page.
  const built: { pages: { path: string; shown: { en: { title: string | null } } }[] } = JSON.parse(
    readPage('console/dist/pages.json'),
  )
  const pages = built.pages.filter(({ shown, path }) => shown.en.title !== null && !path.endsWith('/$tab'))
  const page = readPage('docs/console.md')
  const named = [...page.matchAll(/^(?:\| )?`(\/(?:c|h|operator|account)[^`?]*)`/gm)].map(([, path]) => path)
  expect(named.sort()).toEqual(
    pages
      .map(({ path }) => path.replace('$customerId', '{customer_id}').replace('$requestId', '{request_id}'))
      .map(path => path.replace('$hosterId', '{hoster_id}').replace('$batchId', '{batch_id}'))
      .sort(),
  )
})

test('docs/console.md names every directory of the sources of the console', () => {
  const sources = fileURLToPath(new URL('../../console/src/', import.meta.url))
  const directories = globSync('*/', { cwd: sources }).map(name => name.replace(/\/$/, ''))
  const table = tableRows(readPage('docs/console.md'), 'directory of `console/src/`')
  const named = table.flatMap(([cell]) => [...`\`${cell}\``.matchAll(/([\w-]+)\//g)].map(([, name]) => name))
  expect(named.sort()).toEqual(directories.sort())
})

test('docs/console-api.md lists exactly the addresses of operators', () => {
  const unused = {} as Parameters<typeof operatorEndpoints>[0]
  const served = operatorEndpoints(unused).map(({ method, path }) => {
    expect(path).toMatch(PREFIX)
    return `${method} ${path.slice(PREFIX.length).replace(/:(\w+)/g, '{$1}')}`
  })
  const named = tableRows(readPage('docs/console-api.md'), "operator's address").map(([address]) => address)
  expect(named.sort()).toEqual(served.sort())
})

test('docs/console-api.md lists exactly the addresses of a customer that /v1 does not have', () => {
  const unused = {} as never
  const served = [
    ...customerData(unused),
    live(unused),
    playgroundKey(unused),
    ...paymentEndpoints(unused),
    ...autoTopUpEndpoints(unused),
    ...requestSharingEndpoints(unused),
    ...personalDataEndpoints(unused).filter(({ right }) => right !== undefined),
  ].map(
    ({ method, path }) =>
      `${method} ${path.slice('/console/api/customers/:customer_id/'.length).replace(/:(\w+)/g, '{$1}')}`,
  )
  const named = tableRows(readPage('docs/console-api.md'), 'address of a customer').map(([address]) => address)
  expect(named.sort()).toEqual(served.sort())
})

test('docs/console-api.md lists exactly the addresses of hosters that are for people only', () => {
  const prefix = '/console/api/hosters/:hoster_id/'
  const served = earningsEndpoints({} as never).flatMap(({ method, path }) =>
    path.startsWith(prefix) ? [`${method} ${path.slice(prefix.length).replace(/:(\w+)/g, '{$1}')}`] : [],
  )
  const named = tableRows(readPage('docs/console-api.md'), "address of a hoster's people").map(([address]) => address)
  expect(named.sort()).toEqual(served.sort())
})

test('docs/console-api.md lists exactly the addresses of hosters that only people use', () => {
  const served = [...hosterPeopleEndpoints({} as never), ...hosterInviteEndpoints({} as never)].map(
    ({ method, path, hosterRight, needsConfirmation }) => ({
      address: `${method} ${path.slice('/console/api/'.length).replace(/:(\w+)/g, '{$1}')}`,
      right: hosterRight ?? '',
      isConfirmed: needsConfirmation === true,
    }),
  )
  const named = tableRows(readPage('docs/console-api.md'), 'address of hosters').map(([address, right, text]) => ({
    address,
    right,
    isConfirmed: text!.includes('confirmation'),
  }))
  expect(named).toEqual(served)
})
