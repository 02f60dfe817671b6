import { expect, test } from 'vitest'
import { operatorScopes } from '../../src/base/domain/operator-scope.ts'
import { forOperatorKeys } from '../../src/http/endpoints/operator/for-operator-keys.ts'
import { operatorEndpoints } from '../../src/http/endpoints/operator/operator-endpoints.ts'
import { readPage, tableRows } from './page.ts'

const page = readPage('docs/operator-api.md')

test('docs/operator-api.md lists exactly the addresses for keys, with their scopes and repeats', () => {
  const served = forOperatorKeys(operatorEndpoints({} as never)).map(({ method, doc, operatorScope, isDoneOnce }) => [
    `${method} ${doc.openapiPath}`,
    operatorScope,
    isDoneOnce ? 'yes' : '',
  ])
  expect(tableRows(page, 'address for keys').sort()).toEqual(served.sort())
})

test('docs/operator-api.md lists the scopes', () => {
  expect(tableRows(page, 'scope').map(([scope]) => scope)).toEqual([...operatorScopes])
})

test('operations of the operator API have ids of their own', () => {
  const ids = forOperatorKeys(operatorEndpoints({} as never)).map(({ doc }) => doc.operationId)
  expect(new Set(ids).size).toBe(ids.length)
})
