import { describe, expect, test } from 'vitest'
import { dialects } from '../../src/base/domain/conversation.ts'
import type { ScriptedDialect } from '../harness/scripted-vendors.ts'
import { dialectFeatures } from './dialect-features.ts'
import { featureOutcome } from './dialect-outcome.ts'
import { readPage, tableRows } from './page.ts'

describe.each(Object.keys(dialectFeatures) as ScriptedDialect[])(
  'docs/dialects.md has what crosses from %s',
  client => {
    const page = readPage('docs/dialects.md')
    const documented = tableRows(page, `part of a ${client} request`)

    test('in order', () => {
      expect(documented.map(([name]) => name)).toEqual(dialectFeatures[client].map(({ name }) => plain(name)))
    })

    test.each(dialectFeatures[client])('$name', feature => {
      const row = documented.find(([name]) => name === plain(feature.name))
      expect(row?.slice(1)).toEqual(dialects.map(server => featureOutcome(client, feature, server)))
    })
  },
)

/** `tableRows` removes backticks around a whole cell. */
function plain(name: string): string {
  return name.replace(/^`([^`]*)`$/, '$1')
}
