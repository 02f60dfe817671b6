import { cp, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { afterEach, expect, test } from 'vitest'
import { freePort } from '../../../bench/free-port.ts'
import { databaseUrl, sourceProgram } from '../../cli/run-cli.ts'
import { PASSWORD } from '../../harness/browser-client.ts'
import { openPage, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { createTestDatabase } from '../../harness/database.ts'
import { openSignedIn } from '../../harness/signed-in-page.ts'
import { useDemoApp } from '../../harness/use-demo-app.ts'
import { startGatewayProcess } from '../../nodes/gateway-process.ts'

// What an open tab does while its gateway restarts or is upgraded.

const chromium = useChromium()
const app = useDemoApp()
const open: WatchedPage[] = []

afterEach(async () => {
  for (const { context } of open.splice(0)) await context.close()
})

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** A gateway that is started again and again on the same port, with the same data. */
async function useRestarts(undo: AsyncDisposableStack) {
  const database = await createTestDatabase()
  undo.defer(() => database.drop())
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-survives-'))
  undo.defer(() => rm(directory, { recursive: true }))
  const port = String(await freePort())
  await writeFile(join(directory, 'switchyard.yaml'), JSON.stringify({ detect: { enabled: false } }))
  const env = { DATABASE_URL: databaseUrl(database.connection), SWITCHYARD_MASTER_KEY: 'a'.repeat(64), PORT: port }
  return {
    directory,
    async start(program = sourceProgram) {
      const gateway = await startGatewayProcess({ directory, env, program })
      undo.defer(async () => {
        gateway.signal('SIGKILL')
        await gateway.ended
      })
      return gateway
    },
  }
}

/** Copies the program with another build of the console: the same one, with other names of all its files. */
async function upgradedProgram(directory: string): Promise<string[]> {
  const copy = join(directory, 'upgraded')
  for (const each of ['src', 'sql', 'package.json', 'console/dist'])
    await cp(join(root, each), join(copy, each), { recursive: true })
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
  const dist = join(copy, 'console/dist')
  const assets = join(dist, 'assets')
  // No name may stay: browsers keep the files.
  const renamed = (text: string) =>
    text.replaceAll(
      /(-[\w-]{7})([\w-])(?=\.(?:js|css|woff2)\b)/g,
      (_, start, last) => start + (last === '0' ? '1' : '0'),
    )
  for (const name of await readdir(assets)) {
    // The compressed files have the old names in them.
    if (/\.(?:br|gz)$/.test(name)) await rm(join(assets, name))
    else await rename(join(assets, name), join(assets, renamed(name)))
  }
  const texts = (await readdir(assets)).filter(name => /\.(?:js|css)$/.test(name)).map(name => `assets/${name}`)
  for (const name of [...texts, 'index.html', 'pages.json']) {
    const file = join(dist, name)
    await writeFile(file, renamed(await readFile(file, 'utf8')))
  }
  return [process.execPath, join(copy, 'src/cli.js')]
}

/** Counts the documents that a tab loads from now on. */
function countLoads(page: Page): () => number {
  let loads = 0
  page.on('domcontentloaded', () => loads++)
  return () => loads
}

test('an open tab outlives a restart, and loads again once after an upgrade', async () => {
  await using undo = new AsyncDisposableStack()
  const { directory, start } = await useRestarts(undo)
  const first = await start()
  const watched = await openPage(chromium.browser, { baseURL: first.url })
  open.push(watched)
  const { page } = watched
  await page.goto(/\S+\/welcome#\S+/.exec(first.output())![0])
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByRole('link', { name: 'Not now' }).click()
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.getByRole('button', { name: 'All customers' }).click()
  await page.getByRole('menuitem', { name: /^Customer/ }).click()
  await page.getByText(/^Balance \d+\.\d\d USD/).waitFor()
  const loads = countLoads(page)

  first.signal('SIGKILL')
  await first.ended
  // Its file was not loaded before.
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Models' }).click()
  await page.getByText('Reconnecting …').waitFor()
  await page.getByText(/You see the data of \d\d:\d\d:\d\d/).waitFor()
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Models' }).waitFor()
  const second = await start()
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor()
  await page.getByText('The gateway does not answer').waitFor({ state: 'detached' })
  expect(loads()).toBe(0)

  second.signal('SIGKILL')
  await second.ended
  await page.getByText('Reconnecting …').waitFor()
  const entry = () => page.locator('script[type=module][src]').getAttribute('src')
  const entryBefore = await entry()
  await start(await upgradedProgram(directory))
  await expect.poll(loads).toBe(1)
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor()
  expect(await entry()).not.toBe(entryBefore)
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Credits' }).click()
  await page.getByRole('heading', { level: 1, name: 'Credits' }).waitFor()
  expect(loads()).toBe(1)
})

test('a file that stays missing is an error inside of the frame, after one new load', async () => {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  const { page } = watched
  await page.goto(`/c/${customerId}`)
  await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor()
  const loads = countLoads(page)
  await page.route(/assets\/Playground-.*\.js/, route => route.fulfill({ status: 404, body: '' }))
  await page.getByRole('link', { name: 'Playground' }).click()
  await page.getByText('A part of this page could not be loaded.').waitFor()
  expect(loads()).toBe(1)
  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
  expect(loads()).toBe(1)
})

test('an upgrade takes no typed text away: the next page is the new one', async () => {
  const { customerId } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  const { page } = watched
  await page.goto(`/c/${customerId}/playground`)
  await page.getByRole('textbox', { name: 'Prompt', exact: true }).fill('A long thought')
  const loads = countLoads(page)
  await page.route('**/console/api/**', route => route.abort())
  await page.route('**/sign-in', async route => {
    const response = await route.fetch()
    await route.fulfill({ response, body: (await response.text()).replace(/\/index-[\w-]+\.js/, '/index-newbuild.js') })
  })
  await page.getByText('Reconnecting …').waitFor({ timeout: 60_000 })
  await page.unroute('**/console/api/**')
  await page.getByText('The gateway was upgraded.').waitFor()
  expect(await page.getByRole('textbox', { name: 'Prompt', exact: true }).inputValue()).toBe('A long thought')
  expect(loads()).toBe(0)
  await page.getByRole('link', { name: 'Keys' }).click()
  await expect.poll(loads).toBe(1)
  await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
})

test('the live stream opens again after the person has signed in again', async () => {
  const { customerId, key } = await app.customer()
  const watched = await openSignedIn(chromium.browser, app, customerId)
  open.push(watched)
  const { page, email } = watched
  await page.goto(`/c/${customerId}/activity`)
  await page.getByRole('heading', { level: 1, name: 'Activity' }).waitFor()
  await app.database.pool.query(
    'DELETE FROM person_session WHERE person_id = (SELECT person_id FROM person WHERE email = $1)',
    [email],
  )
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.waitFor({ timeout: 60_000 })
  const opened = page.waitForRequest(/customers\/[^/]+\/live/)
  await dialog.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await opened
  await fetch(`${app.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', max_tokens: 5, messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  await page.getByRole('link', { name: 'demo' }).first().waitFor()
})
