import { expect, test } from 'vitest'
import { type HosterRight, hasHosterRight, hosterScopes } from '../../src/base/domain/hoster-access.ts'
import { hosterStates } from '../../src/base/domain/hoster-state.ts'
import { memberRoles } from '../../src/base/domain/member-role.ts'
import { useTestApp } from '../harness/use-test-app.ts'
import { readPage, tableRows } from './page.ts'

const page = readPage('docs/hosters.md')
const firstCells = (column: string) => tableRows(page, column).map(([cell]) => cell)
const app = useTestApp()

test('docs/hosters.md lists the states and the scopes', () => {
  expect(firstCells('state')).toEqual([...hosterStates])
  expect(firstCells('scope')).toEqual([...hosterScopes])
})

test('docs/hosters.md lists the rights of each role', () => {
  const rights: HosterRight[] = ['read', 'manage', 'keys', 'earnings', 'people']
  const real = memberRoles.map(role => [role, rights.filter(right => hasHosterRight(role, right))])
  const documented = tableRows(page, 'role').map(([role, named]) => [role, named!.replaceAll('`', '').split(', ')])
  expect(documented).toEqual(real)
})

test('docs/hosters.md lists exactly the addresses of hosters', async () => {
  const { paths } = (await (await fetch(`${app.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { security: { hosterKey?: [] }[] }>>
  }
  const served = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, { security }]) => security.some(({ hosterKey }) => hosterKey !== undefined))
      .map(([method]) => `${method.toUpperCase()} ${path}`),
  )
  expect(firstCells('address of a hoster').sort()).toEqual(served.sort())
})
