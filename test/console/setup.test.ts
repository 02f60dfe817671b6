import { mkdtemp, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { isBackupDue, noteBackup } from '../../src/operator/backup-state.ts'
import { createOperatorSetup } from '../../src/operator/setup.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import type { SetupReport, SetupTest } from '../../src/wire/api/operator/setup.ts'
import type { OperatorSystem } from '../../src/wire/api/operator/system.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { useDemoApp } from '../harness/use-demo-app.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const bare = useDemoApp()

/** A mail server that takes every mail, and keeps what it is told. */
const smtp = useResource(
  () =>
    new Promise<{ port: number; said: string[]; close: () => void }>(resolve => {
      const said: string[] = []
      const server = createServer(socket => {
        let inText = false
        socket.write('220 test\r\n')
        socket.on('data', data => {
          const text = String(data)
          said.push(text)
          if (inText) {
            if (!text.endsWith('\r\n.\r\n')) return
            inText = false
            socket.write('250 taken\r\n')
          } else if (/^DATA/i.test(text)) {
            inText = true
            socket.write('354 go on\r\n')
          } else socket.write(/^QUIT/i.test(text) ? '221 bye\r\n' : '250 ok\r\n')
        })
        socket.on('error', () => {})
      })
      server.listen(0, '127.0.0.1', () =>
        resolve({ port: (server.address() as AddressInfo).port, said, close: () => server.close() }),
      )
    }),
  server => server.close(),
)

const ready = useTestApp(() => ({
  offers: [],
  yaml: `
smtp: { host: 127.0.0.1, port: ${smtp.port}, security: none, from: gateway@example.com }
payments: { manual: { instructions: "Quote {reference}." } }
`,
}))

const read = async <T>(answered: Promise<Response>) => {
  const response = await answered
  expect(response.status).toBe(200)
  return (await response.json()) as T
}
const stepsOf = async (browser: BrowserClient) =>
  Object.fromEntries((await read<SetupReport>(browser.get('operator/setup'))).steps.map(step => [step.step, step]))

let onBare: BrowserClient
let onReady: BrowserClient
beforeAll(async () => {
  onBare = (await signedInOperator(bare)).browser
  onReady = (await signedInOperator(ready)).browser
})

test('a fresh gateway says what is missing, and what to do', async () => {
  const steps = await stepsOf(onBare)
  expect(Object.keys(steps)).toEqual(['provider', 'mail', 'payments', 'backups', 'tls'])
  for (const step of Object.values(steps)) {
    expect(step).toMatchObject({ is_done: false, todo: expect.stringMatching(/\.$/) })
  }
  expect(steps.provider!.link).toBe('/operator/providers')
  expect(await read(onBare.post('operator/setup/mail-test'))).toMatchObject({ is_working: false })
  expect(await read(onBare.post('operator/setup/payments-test'))).toMatchObject({ is_working: false })
})

test('steps that are done are marked so, and the test mail arrives', async () => {
  await noteBackup(ready.database.pool, new Date())
  const steps = await stepsOf(onReady)
  expect(
    Object.entries(steps)
      .filter(([, { is_done }]) => is_done)
      .map(([name]) => name),
  ).toEqual(['mail', 'payments', 'backups'])
  const tested = await read<SetupTest>(onReady.post('operator/setup/mail-test'))
  expect(tested).toMatchObject({ is_working: true, detail: expect.stringContaining('@example.com') })
  expect(await read(onReady.post('operator/setup/payments-test'))).toMatchObject({ is_working: false })
  expect(smtp.said.join('')).toContain('Switchyard can send mail')
})

test('an https address counts as TLS', async () => {
  const setup = createOperatorSetup({
    sql: ready.database.pool,
    clock: { epochMs: Date.now, monotonicMs: () => performance.now() },
    mail: { canSend: false, send: async () => false, url: path => path },
    drivers: [],
    offers: () => [],
    backupHours: () => 0,
    configFile: '/etc/switchyard.yaml',
    baseUrl: () => 'https://gateway.example',
  })
  const { steps } = await setup.read()
  expect(steps.filter(({ is_done }) => is_done).map(({ step }) => step)).toEqual(['backups', 'tls'])
})

test('each step that is done in the file has an example that the gateway takes, and the file is named', async () => {
  const report = await read<SetupReport>(onBare.get('operator/setup'))
  expect(isAbsolute(report.config_file)).toBe(true)
  const snippets = report.steps.flatMap(({ step, snippet, link }) => {
    // Otherwise a page does it.
    if (snippet === null) expect(link).not.toBeNull()
    return snippet === null ? [] : [{ step, snippet }]
  })
  expect(snippets.map(({ step }) => step)).toEqual(['mail', 'payments', 'backups', 'tls'])
  const text = snippets.map(({ snippet }) => snippet).join('')
  const directory = await mkdtemp(join(tmpdir(), 'setup-'))
  await writeFile(join(directory, 'x.yaml'), text)
  const { smtp, server } = loadConfig({ env: { SMTP_PASSWORD: 'secret' }, cwd: directory, file: 'x.yaml' })
  expect(smtp?.host).toBe('mail.example.com')
  expect(server.publicBaseUrl).toBe('https://gateway.example.com')
})

test('the page System and the setup agree about backups', async () => {
  const states = async (browser: BrowserClient) => {
    const { checks } = await read<OperatorSystem>(browser.get('operator/system'))
    const { backups } = await stepsOf(browser)
    return [checks.find(({ check }) => check === 'backups')!.state, backups!.is_done]
  }
  expect(await states(onBare)).toEqual(['warning', false])
  expect(await states(onReady)).toEqual(['ok', true])
  expect(isBackupDue(null, 0, 0)).toBe(false)
})
