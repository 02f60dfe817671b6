import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { offerOf } from '../../../test/supply/random-market.ts'
import { loadConfig } from '../../start/config/config.ts'
import { checkAudits } from './check-audits.ts'

const directory = mkdtempSync(join(tmpdir(), 'switchyard-audits-'))
afterAll(() => rmSync(directory, { recursive: true }))
writeFileSync(join(directory, 'canaries.yaml'), 'canaries: [{ prompt: Which river?, answer: Elbe, models: [b] }]')

const hosted = ['a', 'b'].map(modelId => offerOf({ kind: 'hoster', modelId }))

function found(trust: string): string[] {
  const file = join(directory, 'switchyard.yaml')
  const models = '[{ id: a, price_per_million_usd: { input: 1, output: 1 } }]'
  const endpoint = `{ name: mine, kind: local, base_url: "http://127.0.0.1:9/v1", models: ${models} }`
  writeFileSync(file, `endpoints: [${endpoint}]\ntrust: ${trust}`)
  return checkAudits(loadConfig({ env: {}, cwd: directory, file }), hosted).map(({ detail }) => detail)
}

test('models of hosters without a reference and without prompts of the operator are named', () => {
  expect(found('{}')).toEqual([expect.stringMatching(/has the model b, so hosters may recognise its audits/)])
  expect(found('{ canaries_file: canaries.yaml }')).toEqual([])
  expect(found('{ audits: false }')).toEqual([])
})
