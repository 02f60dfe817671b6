import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { beforeAll, expect, test } from 'vitest'
import { createPool, transaction } from '../../src/base/db/pool.ts'
import { endGroupRoles, writeGroupRules } from '../../src/identity/people/group-roles.ts'
import { findPerson } from '../../src/identity/people/persons.ts'
import { setRole } from '../../src/identity/people/roles.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { prepare } from '../../src/start/prepare.ts'
import { databaseUrl } from '../cli/run-cli.ts'
import { BrowserClient, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { CLIENT_ID, type ProviderScript, startScriptedProvider } from '../harness/scripted-provider.ts'
import { SoftwareAuthenticator } from '../harness/software-authenticator.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const provider = useResource(startScriptedProvider, each => each.close())
const app = useTestApp(() => ({
  yaml: `accounts:
  oidc:
    - id: work
      name: Work
      issuer: ${provider.issuer}
      client_id: ${CLIENT_ID}
      client_secret: ${provider.clientSecret}
      groups: { claim: teams, operators: [platform], auditors: [finance, legal] }
`,
}))

const url = () => app.url.replace('127.0.0.1', 'localhost')
const groups = { claim: 'teams', operators: ['platform'], auditors: ['finance'], hours: 12 }
const configured = () => ({
  id: 'work',
  name: 'Work',
  issuer: provider.issuer,
  clientId: CLIENT_ID,
  clientSecret: null,
  scopes: '',
  groups,
})
/** As each start does. */
const configure = (...providers: Parameters<typeof writeGroupRules>[1]) =>
  transaction(app.database.pool, sql => writeGroupRules(sql, providers))
beforeAll(() => configure(configured()))

/** A person with a proved address and, unless told otherwise, a passkey. */
async function member({ hasPasskey = true } = {}) {
  const { customerId } = await app.customer()
  const { browser, email } = await signedInMember(app, customerId, 'owner', Date.now(), url())
  await app.database.pool.query('UPDATE person SET email_verified_at = now() WHERE email = $1', [email])
  const authenticator = new SoftwareAuthenticator(url())
  if (hasPasskey) {
    // biome-ignore lint/suspicious/noExplicitAny: the options are those of the browser's interface
    const options = (await (await browser.post('factors/passkeys/start')).json()) as any
    await browser.post('factors/passkeys', { name: 'Key', passkey: authenticator.create(options) })
  }
  const subject = randomBytes(8).toString('hex')
  const signIn = async (claims: ProviderScript['claims'] = {}) => {
    const client = new BrowserClient(url())
    const started = (await (await client.post('oidc/start', { provider: 'work' })).json()) as { url: string }
    const back = provider.visit(started.url, { subject, email, claims })
    const answer = await client.post('oidc/finish', { query: back.search })
    if (!hasPasskey) return client
    expect(await answer.json()).toMatchObject({ outcome: 'factor' })
    // biome-ignore lint/suspicious/noExplicitAny: as above
    const request = (await (await client.post('passkeys/sign-in/start')).json()) as any
    expect((await client.post('oidc/factor', { passkey: authenticator.get(request) })).status).toBe(200)
    return client
  }
  return { email, signIn }
}

async function roleOf(client: BrowserClient): Promise<string | null> {
  const { person } = (await (await client.get('session')).json()) as { person: { role: string | null } }
  return person.role
}

/** The changes of the role in the audit log, and why a sign-in gave none. */
async function logged(email: string): Promise<unknown[]> {
  const { rows } = await app.database.pool.query<{ detail: unknown }>(
    `SELECT detail FROM audit_entry WHERE subject = $1 AND (action = 'role.changed' OR (action = 'person.signed_in' AND detail ? 'groups'))
      ORDER BY entry_id`,
    [email],
  )
  return rows.map(({ detail }) => detail)
}

const byGroups = (from: string | null, to: string | null) => ({ from, to, by_groups_of: provider.issuer })

test('each sign-in gives, changes and takes the role of the groups, and ends the sessions before', async () => {
  const { email, signIn } = await member()
  const operator = await signIn({ teams: ['everybody', 'finance', 'platform'] })
  expect(await roleOf(operator)).toBe('operator')
  expect((await operator.get('operator/overview')).status).toBe(200)
  expect(await roleOf(await signIn({ teams: ['platform'] }))).toBe('operator')
  expect(await roleOf(operator)).toBe('operator')

  const auditor = await signIn({ teams: 'legal' })
  expect(await roleOf(auditor)).toBe('auditor')
  expect((await operator.get('session')).status).toBe(401)

  const left = await signIn({ teams: [] })
  expect(await roleOf(left)).toBe(null)
  expect(await readError(await left.get('operator/overview'))).toMatchObject({ status: 403 })
  expect((await auditor.get('session')).status).toBe(401)
  expect(await logged(email)).toEqual([
    byGroups(null, 'operator'),
    byGroups('operator', 'auditor'),
    byGroups('auditor', null),
  ])
})

test('a missing claim takes the role, and other claims give none', async () => {
  const { signIn } = await member()
  expect(await roleOf(await signIn({ teams: ['finance'] }))).toBe('auditor')
  expect(await roleOf(await signIn())).toBe(null)
  expect(await roleOf(await signIn({ groups: ['platform'], teams: { platform: true } }))).toBe(null)
})

test('without a second factor there is no role, and the audit log says why', async () => {
  const { email, signIn } = await member({ hasPasskey: false })
  expect(await roleOf(await signIn({ teams: ['platform'] }))).toBe(null)
  expect(await logged(email)).toEqual([{ with: 'work', groups: 'no_factor' }])
})

test('a role that was given by hand stays, whatever the groups say', async () => {
  const { email, signIn } = await member()
  const { pool } = app.database
  const byHand = async (role: 'auditor' | 'operator' | null) =>
    transaction(pool, async sql => setRole(sql, (await findPerson(sql, email))!, role))
  await byHand('auditor')
  expect(await roleOf(await signIn({ teams: ['platform'] }))).toBe('auditor')
  expect(await roleOf(await signIn({ teams: [] }))).toBe('auditor')
  expect((await logged(email)).slice(1)).toEqual([{ with: 'work', groups: 'by_hand' }])

  await byHand(null)
  expect(await roleOf(await signIn({ teams: ['platform'] }))).toBe('operator')
  await byHand('operator')
  expect(await roleOf(await signIn({ teams: [] }))).toBe('operator')
})

test('the role ends without another sign-in: after its hours, and when the configuration no longer gives it', async () => {
  const { pool } = app.database
  const [late, dropped] = [await member(), await member()]
  const lateClient = await late.signIn({ teams: ['platform'] })
  const droppedClient = await dropped.signIn({ teams: ['finance'] })
  const ends = await pool.query<{ hours: number }>(
    `SELECT round(extract(epoch FROM ends_at - now()) / 3600)::integer AS hours FROM group_role JOIN person USING (person_id) WHERE email = $1`,
    [late.email],
  )
  expect(ends.rows).toEqual([{ hours: 12 }])
  await endGroupRoles(pool)
  expect(await roleOf(lateClient)).toBe('operator')

  await pool.query(
    'UPDATE group_role SET ends_at = now() FROM person p WHERE p.person_id = group_role.person_id AND email = $1',
    [late.email],
  )
  await endGroupRoles(pool)
  expect((await lateClient.get('session')).status).toBe(401)
  expect(await logged(late.email)).toEqual([byGroups(null, 'operator'), byGroups('operator', null)])
  expect(await roleOf(droppedClient)).toBe('auditor')

  await configure({ ...configured(), groups: { ...groups, auditors: [] } })
  await endGroupRoles(pool)
  expect((await droppedClient.get('session')).status).toBe(401)
  await configure(configured())
  expect(await roleOf(await dropped.signIn({ teams: ['finance'] }))).toBe('auditor')
})

test('a start notes which roles the groups may give', async () => {
  const { pool, connection } = app.database
  await configure()
  const home = mkdtempSync(join(tmpdir(), 'switchyard-groups-'))
  const file = join(home, 'switchyard.yaml')
  const service = { id: 'work', name: 'Work', issuer: 'https://idp.example', client_id: 'x' }
  const oidc = [{ ...service, groups: { operators: ['platform'], hours: 8 } }]
  writeFileSync(file, JSON.stringify({ accounts: { oidc }, demo: { enabled: false }, detect: { enabled: false } }))
  const env = { DATABASE_URL: databaseUrl(connection), SWITCHYARD_DATA: home, SWITCHYARD_CONFIG: file }
  const config = loadConfig({ env, cwd: home })
  const foundation = await prepare({
    config,
    readAgain: () => config,
    log: pino({ level: 'silent' }),
    connections: 0,
    isStopping: () => false,
    onLost() {},
  })
  await foundation![Symbol.asyncDispose]()
  rmSync(home, { recursive: true })
  const { rows } = await pool.query('SELECT issuer, role, provider, hours FROM group_role_rule')
  expect(rows).toEqual([{ issuer: 'https://idp.example', role: 'operator', provider: 'work', hours: 8 }])
})

test('the desk role gives no role that the configuration does not name', async () => {
  const { email } = await member()
  const desk = createPool(app.database.deskConnection, { max: 1, applicationName: 'desk role' })
  const attacks = [
    `SELECT take_group_role(person_id, 'https://other.example', 'operator', NULL) FROM person WHERE email = '${email}'`,
    `INSERT INTO group_role_rule (issuer, role, provider, hours) VALUES ('https://other.example', 'operator', 'x', 1)`,
    `UPDATE group_role SET ends_at = 'infinity'`,
    `SELECT set_group_role(person_id, 'operator', 'x', NULL) FROM person WHERE email = '${email}'`,
  ]
  for (const attack of attacks) await expect(desk.query(attack)).rejects.toMatchObject({ code: '42501' })
  await desk.end()
})
