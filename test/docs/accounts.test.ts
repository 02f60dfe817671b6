import { expect, test } from 'vitest'
import { hasRight, memberRoles } from '../../src/base/domain/member-role.ts'
import { factorEndpoints } from '../../src/http/endpoints/factors.ts'
import { oidcEndpoints } from '../../src/http/endpoints/oidc.ts'
import { passkeyEndpoints } from '../../src/http/endpoints/passkeys.ts'
import { peopleEndpoints } from '../../src/http/endpoints/people.ts'
import { personalDataEndpoints } from '../../src/http/endpoints/personal-data.ts'
import { profileEndpoints } from '../../src/http/endpoints/profile.ts'
import { sessionEndpoints } from '../../src/http/endpoints/session.ts'
import { signUpEndpoints } from '../../src/http/endpoints/sign-up.ts'
import { readPage, tableRows } from './page.ts'
import { titlesOf } from './titles-of.ts'

const page = readPage('docs/accounts.md')

test('docs/accounts.md lists the addresses with their access', () => {
  const unused = {} as never

  const real = [
    ...sessionEndpoints(unused),
    ...factorEndpoints(unused),
    ...profileEndpoints(unused),
    ...personalDataEndpoints(unused).filter(({ right }) => right === undefined),
    ...passkeyEndpoints(unused),
    ...oidcEndpoints(unused),
    ...signUpEndpoints(unused),
    ...peopleEndpoints(unused),
  ].map(({ method, path, access, right, needsConfirmation }) => [
    `${method} ${path.replace(/:(\w+)/g, '{$1}').replace('/console/api/customers/{customer_id}', 'C')}`,
    `${right === 'people' ? 'owner' : access}${needsConfirmation ? ', confirmed' : ''}`,
  ])
  const documented = tableRows(page, 'address').map(([address, access]) => [address, access])
  expect(documented).toEqual(real)
})

test('docs/accounts.md lists the roles with their rights', () => {
  const words = {
    usage: /usage|everything/,
    credits: /statement|everything/,
    keys: /keys|everything/,
    alerts: /alerts|everything/,
  }
  const rows = tableRows(page, 'role')
  expect(rows.map(([role]) => role)).toEqual([...memberRoles])
  for (const [index, role] of memberRoles.entries())
    for (const [right, word] of Object.entries(words))
      expect({ role, right, may: word.test(rows[index]![1]!) }).toEqual({
        role,
        right,
        may: hasRight(role, right as keyof typeof words),
      })
})

test('every attack in docs/accounts.md has tests that exist', () => {
  const rows = tableRows(page, 'attack on accounts')
  expect(rows.length).toBeGreaterThan(20)
  for (const [attack, tests] of rows) {
    const named = [...tests!.matchAll(/"(.+?)" in \[[^\]]+\]\(\.\.\/([^)]+)\)/g)]
    expect({ attack, tests: named.length }).not.toMatchObject({ tests: 0 })
    const missing = named
      .map(([, title, file]) => ({ title: title!, file: file! }))
      .filter(({ title, file }) => !titlesOf(file).has(title))
    expect(missing).toEqual([])
  }
})
