import { afterEach, expect, test } from 'vitest'
import { transaction } from '../../../src/base/db/pool.ts'
import { setMember } from '../../../src/identity/people/persons.ts'
import { startSmtpSink } from '../../alerts/smtp-sink.ts'
import { operatorToken, PASSWORD, signedInMember } from '../../harness/browser-client.ts'
import { axeFindings, openPage, settled, useChromium, type WatchedPage } from '../../harness/chromium.ts'
import { CLIENT_ID, startScriptedProvider } from '../../harness/scripted-provider.ts'
import { useResource } from '../../harness/use-resource.ts'
import { useTestApp } from '../../harness/use-test-app.ts'

// Passkeys with the virtual authenticator of Chromium, and the pages of another service, in a real browser.

const provider = useResource(startScriptedProvider, each => each.close())
const smtp = useResource(startSmtpSink, sink => sink.close())
const app = useTestApp(() => ({
  yaml: `accounts:
  sign_up: open
  oidc:
    - id: work
      name: Example Corp
      issuer: ${provider.issuer}
      client_id: ${CLIENT_ID}
      client_secret: ${provider.clientSecret}
smtp:
  host: 127.0.0.1
  port: ${smtp.port}
  security: none
`,
}))
const chromium = useChromium()
const open: WatchedPage[] = []
const url = () => app.url.replace('127.0.0.1', 'localhost')

async function newPage(width = 1280) {
  const watched = await openPage(chromium.browser, { baseURL: url(), viewport: { width, height: 800 } })
  open.push(watched)
  const { page, context } = watched
  // Plays the person at the other service: the browser is sent back at once.
  await page.route(`${provider.issuer}/authorize**`, route =>
    route.fulfill({ status: 302, headers: { location: provider.visit(route.request().url(), script).href } }),
  )
  const session = await context.newCDPSession(page)
  await session.send('WebAuthn.enable')
  await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return page
}

let script: Parameters<typeof provider.visit>[1] = {}

afterEach(async () => {
  const complaints = open.flatMap(each => each.complaints)
  for (const { context } of open.splice(0)) await context.close()
  const asked = (text: string) => text.startsWith(`asked another host: ${provider.issuer}/authorize`)
  expect(complaints.filter(text => !asked(text) && !/status of 4\d\d/.test(text))).toEqual([])
})

async function signIn(page: WatchedPage['page'], email: string) {
  await page.getByLabel('E-mail address').fill(email)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

test('a person adds a passkey, signs in with it, uses it after the password and to confirm, and removes it', async () => {
  const { customerId } = await app.customer()
  const { email } = await signedInMember(app, customerId)
  const page = await newPage()
  await page.goto(`/c/${customerId}/settings/security`)
  await signIn(page, email)
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByText('Store these recovery codes').waitFor()
  await page.getByRole('button', { name: 'I have stored them' }).click()
  const passkeys = page.getByRole('region', { name: 'Passkeys' })
  await passkeys.getByText('Chrome, Linux').waitFor()
  await passkeys.getByRole('button', { name: 'Rename' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('Laptop')
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await passkeys.getByText('Laptop').waitFor()

  await page.context().clearCookies()
  await page.goto('/')
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('heading', { name: 'Home' }).waitFor()

  await page.context().clearCookies()
  await page.goto(`/c/${customerId}/settings/security`)
  await signIn(page, email)
  await page.getByRole('button', { name: 'Use a passkey' }).click()
  await page.getByRole('heading', { name: 'Settings' }).waitFor()

  await app.database.pool.query("UPDATE person_session SET confirmed_at = confirmed_at - interval '11 minutes'")
  await passkeys.getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('button', { name: 'Remove the passkey' }).click()
  await page.getByRole('button', { name: 'Use a passkey' }).click()
  await page.getByText('The passkey is removed').waitFor()
  await expect.poll(() => passkeys.getByText('Laptop').count()).toBe(0)
})

test('a person signs up at another service, sets a password and unlinks the service', async () => {
  script = { subject: 'browser-1', email: 'browser-1@example.com', name: 'Grace' }
  const page = await newPage()
  await page.goto('/')
  await page.getByRole('button', { name: 'Sign in with Example Corp' }).click()
  await page.getByRole('button', { name: /Grace/ }).waitFor()
  expect(new URL(page.url()).search).toBe('')
  await page.goto('/account')
  const password = page.getByRole('region', { name: 'Password' })
  await password.getByText('You have no password yet').waitFor()
  await password.getByRole('textbox', { name: 'New password' }).fill('a first long password')
  await password.getByRole('button', { name: 'Set a password' }).click()
  await page.getByText('The password is changed').waitFor()
  const services = page.getByRole('region', { name: 'Other services' })
  await services.getByRole('button', { name: 'Unlink' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Unlink' }).click()
  await page.getByText('The service is unlinked').waitFor()
  await services.getByRole('button', { name: 'Link Example Corp' }).click()
  await services.getByText('browser-1@example.com').waitFor()
  expect(new URL(page.url()).pathname).toBe('/account')
})

test('an operator on the network without a membership adds a passkey with the keyboard, and then operates', async () => {
  const { token } = await operatorToken(app, 'browser-op@example.com')
  const page = await newPage(360)
  await page.setExtraHTTPHeaders({ via: '1.1 proxy' })
  await page.goto(`/welcome#${token}`)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.keyboard.press('Enter')
  const add = page.getByRole('button', { name: 'Add a passkey' })
  await add.focus()
  await page.keyboard.press('Enter')
  const stored = page.getByRole('button', { name: 'I have stored them' })
  await stored.focus()
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'Continue' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
})

test('an operator on the network without a membership adds an app', async () => {
  const { token } = await operatorToken(app, 'browser-app-op@example.com')
  const page = await newPage()
  await page.setExtraHTTPHeaders({ via: '1.1 proxy' })
  await page.goto(`/welcome#${token}`)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.keyboard.press('Enter')
  const panel = page.getByRole('region', { name: 'Authenticator app' })
  await panel.getByRole('button', { name: 'Add an app' }).click()
  const secret = (await panel.locator('pre').first().textContent())!
  const { Secret, TOTP } = await import('otpauth')
  await panel.getByLabel('Code').fill(new TOTP({ secret: Secret.fromBase32(secret.trim()) }).generate())
  await panel.getByRole('button', { name: 'Add the app' }).click()
  await panel.getByText('Store these recovery codes').waitFor()
  await page.goto('/operator')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
})

test('an operator who adds no second factor is reminded on every page, and after the next sign-in told what to run', async () => {
  const { customerId } = await app.customer()
  const email = 'browser-later-op@example.com'
  const { token, personId } = await operatorToken(app, email)
  await transaction(app.database.pool, sql => setMember(sql, { customerId, personId, role: 'owner' }))
  const page = await newPage()
  await page.goto(`/welcome#${token}`)
  await page.getByRole('textbox', { name: 'Password' }).fill(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'Add a second factor' }).waitFor()
  await page.getByRole('link', { name: 'Not now' }).click()
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  await page.getByRole('note').getByRole('link', { name: 'Add a second factor' }).click()
  await page.getByRole('button', { name: 'Add an app' }).waitFor()

  await page.context().clearCookies()
  await page.goto('/')
  await signIn(page, email)
  await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor()
  await page.getByRole('note').getByRole('link', { name: 'What to do' }).click()
  await page.getByRole('heading', { level: 1, name: 'Second factor needed' }).waitFor()
  const command = `operator link ${email}`
  expect(await page.getByRole('region', { name: 'the command' }).textContent()).toContain(command)
  for (const path of ['/account', `/c/${customerId}/settings/security`]) {
    await page.goto(path)
    expect(await page.getByRole('region', { name: 'the command' }).textContent()).toContain(command)
    expect(await page.getByRole('button', { name: 'Add an app' }).count()).toBe(0)
  }
})

test.each(['light', 'dark'] as const)(
  'the pages with all ways to sign in are accessible and fit a phone: %s',
  async colorScheme => {
    const { customerId } = await app.customer()
    const { email } = await signedInMember(app, customerId)
    script = { subject: `axe-${colorScheme}`, email: `axe-${colorScheme}@example.com` }
    const page = await newPage(360)
    // Without motion, a dialog has its colours at once.
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await page.goto('/')
    await page.getByRole('button', { name: 'Sign in with a passkey' }).waitFor()
    const found = await axeFindings(page)
    await signIn(page, email)
    await page.getByRole('heading', { name: 'Home' }).waitFor()
    await page.goto('/account')
    await page.getByRole('button', { name: 'Link Example Corp' }).click()
    await page.getByRole('region', { name: 'Other services' }).getByText(`axe-${colorScheme}`).waitFor()
    await page.getByRole('button', { name: 'Add a passkey' }).click()
    await page.getByRole('button', { name: 'I have stored them' }).click()
    await settled(page)
    found.push(...(await axeFindings(page)))
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0)
    await app.database.pool.query("UPDATE person_session SET confirmed_at = confirmed_at - interval '11 minutes'")
    await page.getByRole('button', { name: 'Add a passkey' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Use a passkey' }).waitFor()
    found.push(...(await axeFindings(page)))
    expect(found).toEqual([])
  },
)
