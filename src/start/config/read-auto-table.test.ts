import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { autoFeatures } from '../../base/domain/auto-table.ts'
import { loadConfig } from './config.ts'

const directory = mkdtempSync(join(tmpdir(), 'switchyard-auto-table-'))
afterAll(() => rmSync(directory, { recursive: true }))

const weights = autoFeatures.map(() => 0.5)
const table = { version: 1, features: autoFeatures, models: { 'org/m': { bias: -1, weights } } }

function load(text: string) {
  writeFileSync(join(directory, 'auto.json'), text)
  const file = join(directory, 'switchyard.yaml')
  writeFileSync(
    file,
    'routing: { auto: { model_file: auto.json, models: [{ id: n, quality: { general: 72.5, code: 100 } }] } }',
  )
  return loadConfig({ env: {}, cwd: directory, file }).routing.auto
}

test('a table is read relative to the working directory', () => {
  expect(load(JSON.stringify(table))).toEqual({
    table: { models: { 'org/m': { bias: -1, weights } } },
    quality: new Map([['n', { general: 0.725, code: 1 }]]),
    qualityFloor: 0.7,
    costWeight: 0.3,
    exploredPart: 0,
  })
})

test.each([
  ['no JSON', '{', /auto\.json: is not JSON/],
  ['other features', JSON.stringify({ ...table, features: ['length'] }), /auto\.json: features/],
  [
    'too few weights',
    JSON.stringify({ ...table, models: { m: { bias: 0, weights: [1] } } }),
    /auto\.json: models\.m\.weights/,
  ],
  ['an unknown version', JSON.stringify({ ...table, version: 2 }), /auto\.json: version/],
])('a table with %s stops the start', (_name, text, message) => {
  expect(() => load(text)).toThrow(message)
})
