import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { constraints } from '../clients/client-world.ts'
import { useDemoApp } from '../harness/use-demo-app.ts'
import { useCustomer } from '../harness/use-test-app.ts'

const gateway = useDemoApp()
const customer = useCustomer(gateway)

const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = new URL('../../docs/clients/', import.meta.url)
const pages = new Map(readdirSync(folder).map(name => [name, readFileSync(new URL(name, folder), 'utf8')]))
const documentedUrl = 'http://127.0.0.1:8080'

function blocks(page: string, language: string): string[] {
  const fenced = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms')
  return [...pages.get(page)!.matchAll(fenced)].map(([, code]) => code!)
}

describe.each(['openai-js.md', 'vercel-ai-sdk.md', 'langchain.md', 'openai-agents.md'])('%s', page => {
  test('the program of the page runs unchanged', async () => {
    const program = blocks(page, 'js').join('\n').replaceAll(documentedUrl, gateway.url)
    const { output, errors, code } = await run(program)
    expect(errors).toBe('')
    expect(code).toBe(0)
    expect(output).toMatch(/^\[demo model\] .+\n\d+ tokens/)
    expect(output).toContain('served by demo\n')
    if (page === 'openai-js.md' || page === 'vercel-ai-sdk.md')
      expect(output).toMatch(/^expected to cost 0\.\d+ USD, at most 0\.\d+$/m)
    expect(output).toMatch(/^\d+ output tokens$/m)
    expect(output).toContain('The tool answered: sunny in')
    expect(output).toMatch(/^404 invalid_request_error model_not_found model [0-9a-f-]{36}$/m)
  })
})

test('the program of embeddings.md runs unchanged', async () => {
  const program = blocks('embeddings.md', 'js').join('\n').replaceAll(documentedUrl, gateway.url)
  const { output, errors, code } = await run(program)
  expect({ errors, code }).toEqual({ errors: '', code: 0 })
  expect(output).toMatch(/^2 vectors of 256 numbers for 0\.\d+ USD\n2 documents\n$/)
})

/** Runs a program as a user would. Its environment has only PATH and the API key. */
async function run(program: string) {
  const child = spawn(process.execPath, ['--input-type=module', '-'], {
    cwd: root,
    env: { PATH: process.env.PATH, SWITCHYARD_API_KEY: customer.key },
  })
  child.stdin.end(program)
  const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  return { output, errors, code: code as number | null }
}

test.each(['openai-js.md', 'openai-python.md', 'vercel-ai-sdk.md', 'langchain.md', 'openai-agents.md'])(
  '%s lists every constraint',
  page => {
    const listed = /^Routing fields: (.+)\.$/m.exec(pages.get(page)!)![1]!
    expect(listed.split(', ')).toEqual(Object.keys(constraints).map(field => `\`${field}\``))
  },
)

test('every request of curl.md succeeds', async () => {
  const commands = blocks('curl.md', 'sh')
    .flatMap(block => block.split(/^(?=curl )/m))
    .filter(text => text.startsWith('curl '))
  expect(commands).toHaveLength(5)
  for (const command of commands) {
    const path = /http:\/\/127\.0\.0\.1:8080(\S+)/.exec(command)![1]!
    const body = /-d '(.*)'/s.exec(command)?.[1]
    const response =
      body === undefined ? await gateway.get(customer, path) : await gateway.chat(customer, JSON.parse(body))
    expect(response.status, command).toBe(200)
    await response.text()
  }
})

test('configuration files of applications parse, use our URL and send valid fields', async () => {
  const files = ['continue.md', 'librechat.md', 'zed.md'].flatMap(page => [
    ...blocks(page, 'json').map(file => JSON.parse(file)),
    ...blocks(page, 'yaml').map(file => parseYaml(file)),
  ])
  expect(files).toHaveLength(3)
  for (const file of files) expect(JSON.stringify(file)).toContain(`"${documentedUrl}/v1"`)
  const [continueFile, librechatFile] = files
  for (const extra of [
    continueFile.models[0].requestOptions.extraBodyProperties,
    librechatFile.endpoints.custom[0].addParams,
  ]) {
    expect(Object.keys(constraints)).toEqual(expect.arrayContaining(Object.keys(extra)))
    const body = { model: 'auto', messages: [{ role: 'user', content: 'Hello' }], ...extra }
    expect((await gateway.chat(customer, body)).status).toBe(200)
  }
})

test('the body of n8n.md is served', async () => {
  const [body] = blocks('n8n.md', 'json')
  expect((await gateway.chat(customer, JSON.parse(body!))).status).toBe(200)
})

test('README.md links every page', () => {
  const linked = [...pages.get('README.md')!.matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, name]) => name!)
  expect(linked.toSorted()).toEqual([...pages.keys()].filter(name => name !== 'README.md').toSorted())
})
