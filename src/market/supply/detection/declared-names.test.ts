import { expect, test } from 'vitest'
import { declaredNames } from './declared-names.ts'
import { commonLocalServers, localServersAt } from './detect-local.ts'

test.each([
  ['http://localhost:11434/v1', ['ollama']],
  ['http://127.0.0.1:8000/v1', ['vllm']],
  ['http://[::1]:1234/v1', ['lmstudio']],
  ['http://10.0.0.5:30000/v1', ['sglang']],
  ['https://api.openai.com/v1', ['openai']],
  ['https://api.groq.com:443/openai/v1', ['groq']],
  ['http://10.0.0.6:8000/v1', []],
  ['http://localhost:8001/v1', []],
  ['http://localhost/v1', []],
  ['https://eu.api.openai.com/v1', []],
])('an endpoint declared at %s is not detected as %j', (base_url, others) => {
  expect([...declaredNames([{ name: 'mine', base_url }], commonLocalServers, ['10.0.0.5'])]).toEqual([
    'mine',
    ...others,
  ])
})

test('loopback belongs to this machine, whatever its other addresses are', () => {
  expect(declaredNames([{ name: 'mine', base_url: 'http://127.0.0.1:8080/v1' }])).toEqual(new Set(['mine', 'llamacpp']))
})

test('a server that is declared at another port to look at is not detected there', () => {
  const servers = localServersAt([9_000, 11_434])
  expect(servers.slice(commonLocalServers.length)).toEqual([{ name: 'local-9000', port: 9_000 }])
  const names = declaredNames([{ name: 'mine', base_url: 'http://localhost:9000/v1' }], servers)
  expect(names).toEqual(new Set(['mine', 'local-9000']))
})
