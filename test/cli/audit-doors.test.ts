import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createProgram } from '../../src/cli/program.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { applyPayoutChanges } from '../../src/money/payouts/payout-accounts.ts'
import { createPayoutWorld, DAY_MS, type PayoutWorld, USD } from '../payouts/payout-world.ts'
import { useCli } from './use-cli.ts'

/** Commands that leave no entry, with the reason. A new command needs a step below, or a line here. */
const exempt: Readonly<Record<string, string>> = {
  'customer list': 'reads',
  'customer show': 'reads',
  'customer members': 'reads',
  'operator list': 'reads',
  'operator key list': 'reads',
  'key list': 'reads',
  'key find': 'reads',
  'payments list': 'reads',
  'payments differences': 'reads',
  'voucher list': 'reads',
  'hoster list': 'reads',
  'hoster review': 'reads',
  'hoster earnings': 'reads',
  'hoster key list': 'reads',
  'payout list': 'reads',
  'payout show': 'reads',
  'payout statement': 'reads',
  'config export': 'reads',
  'model list': 'reads',
  'model review': 'reads',
  'price check': 'reads',
  'price-group list': 'reads',
  'alert list': 'reads',
  'alert log': 'reads',
  'alert test': 'sends a message and changes nothing',
  'ledger audit': 'reads',
  'key-ring status': 'reads',
  'cell link': 'cells/relay has the entry',
  'cell move': 'cells/move has the entry',
  'cell sums': 'reads',
  'key-ring rotate': 'key-ring/rotation has the entry',
  'key-ring forget': 'key-ring/rotation has the entry',
  'key-ring adopt': 'key-ring/lost-keys has the entry',
  'journal inspect': 'reads',
  doctor: 'reads',
  completion: 'prints a script',
  backup: 'writes a file',
  'backup run': 'writes a backup, as the schedule does',
  'backup list': 'reads',
  'backup verify': 'reads',
  export: 'writes a file',
  host: 'runs on the machine of a hoster',
  start: 'runs the gateway',
  init: 'makes the database',
  migrate: 'does what a start does',
  restore: 'makes the database, with the log of the backup',
  'usage archive': 'usage-archive has the entry',
  'usage export': 'reads',
  'usage export-days': 'writes files, as the schedule does',
  import: 'makes the books of a new database, and notes them in the ledger',
}

let world: PayoutWorld
beforeAll(async () => {
  world = await createPayoutWorld()
})
afterAll(() => world.drop())
const cli = useCli({
  get connection() {
    return world.connection
  },
})

interface Entry {
  readonly action: string
  readonly personId: string | null
  readonly subject: string
  readonly detail: Readonly<Record<string, unknown>>
}

async function entriesAfter(id: number): Promise<Entry[]> {
  const { rows } = await world.pool.query<Entry>(
    'SELECT action, person_id AS "personId", subject, detail FROM audit_entry WHERE entry_id > $1 ORDER BY entry_id',
    [id],
  )
  return rows
}

function commandsOf(command: Command, path: readonly string[] = []): string[] {
  const inner = command.commands.flatMap(each => commandsOf(each, [...path, each.name()]))
  // Only a group takes no argument besides its commands.
  return inner.length > 0 && command.registeredArguments.length === 0 ? inner : [path.join(' '), ...inner]
}

const one = async <T extends object>(statement: string, values: readonly unknown[] = []) =>
  (await world.pool.query<T>(statement, values)).rows[0]!

test('every command that changes something leaves an entry with the user of the operating system', async () => {
  const done = new Set<string>()
  /** Runs a command, and checks that it left entries with these actions. Returns its output. */
  // biome-ignore lint/suspicious/noExplicitAny: each output has its own shape
  async function change(command: string, args: readonly string[], ...actions: string[]): Promise<any> {
    const { last } = await one<{ last: number }>('SELECT coalesce(max(entry_id), 0)::int AS last FROM audit_entry')
    const { code, stdout, stderr } = await cli.run([...command.split(' '), ...args, '--json'])
    expect({ command, code, stderr: code === 0 ? '' : stderr }).toEqual({ command, code: 0, stderr: '' })
    const entries = await entriesAfter(last)
    expect({ command, actions: entries.map(({ action }) => action) }).toEqual({ command, actions })
    for (const entry of entries) {
      expect(entry).toMatchObject({ personId: null, detail: { by_os_user: userInfo().username } })
      expect(entry.detail).not.toHaveProperty('by_key_id')
      expect(entry.subject).not.toBe('')
      expect(JSON.stringify(entry)).not.toMatch(/[sho]k-sy-\w{20}|whsec_|upstream-secret/)
    }
    done.add(command)
    const output = JSON.parse(stdout)
    return { ...output, output, entries }
  }
  const addPerson = (email: string) =>
    one<{ id: string }>(
      'INSERT INTO person (person_id, email) VALUES (gen_random_uuid(), $1) RETURNING person_id AS id',
      [email],
    ).then(({ id }) => id)

  // Customers and people.
  const ada = await change('customer add', ['ada@example.com', '--tier', 'standard'], 'customer.created')
  const tier = await change('customer tier', ['ada@example.com', 'scale'], 'customer.changed')
  expect(tier.entries).toMatchObject([{ detail: { before: { tier: 'standard' }, after: { tier: 'scale' } } }])
  await change('customer limits', ['ada@example.com', '--requests-per-minute', '600'], 'customer.changed')
  await change('customer limits', ['ada@example.com'])
  await change('customer disable', ['ada@example.com'], 'customer.changed')
  await change('customer disable', ['ada@example.com'])
  await change('customer enable', ['ada@example.com'], 'customer.changed')
  await change('customer invite', ['ada@example.com', 'bob@example.com'], 'member.invited')
  const member = await addPerson('member@example.com')
  await world.pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'viewer')", [
    ada.customer_id,
    member,
  ])
  const limit = ['ada@example.com', 'member@example.com', '--limit-usd', '5']
  await change('customer limit-member', limit, 'member.limit_changed')
  await change('operator add', ['op@example.com'], 'role.changed', 'operator.link_made')
  await change('operator add', ['two@example.com'], 'role.changed', 'operator.link_made')
  await change('operator link', ['two@example.com'], 'operator.link_made')
  await change('operator remove', ['two@example.com'], 'role.changed')
  const operatorKey = ['op@example.com', '--name', 'reports', '--scope', 'read,money']
  const made = await change('operator key add', operatorKey, 'operator_key.issued')
  await change('operator key revoke', [made.key_id], 'operator_key.revoked')
  await change('person block', ['member@example.com', '--reason', 'left'], 'person.blocked')
  await change('person unblock', ['member@example.com'], 'person.unblocked')
  await change('person export', ['member@example.com', 'member.json'], 'person.exported')
  await change('customer export', ['ada@example.com', 'ada.json'], 'customer.exported')
  await addPerson('leaver@example.com')
  await change('person delete', ['leaver@example.com', '--yes'], 'person.deleted')

  // Keys, alerts and credit.
  const key = await change('key issue', ['ada@example.com', '--name', 'laptop'], 'key.issued')
  expect(key.entries).toMatchObject([{ subject: key.key_id, detail: { name: 'laptop', scopes: [] } }])
  const edited = await change('key edit', [key.key_id, '--limit-usd', '2'], 'key.changed')
  expect(edited.entries).toMatchObject([{ detail: { before: { limit_usd: null }, after: { limit_usd: '2.00' } } }])
  await change('key edit', [key.key_id, '--limit-usd', '2'])
  await change('key pause', [key.key_id], 'key.paused')
  await change('key pause', [key.key_id])
  await change('key resume', [key.key_id], 'key.resumed')
  const rotated = await change('key rotate', [key.key_id, '--grace', '7d'], 'key.rotated')
  expect(rotated.entries).toMatchObject([{ subject: key.key_id, detail: { former_hint: key.hint } }])
  await change('key revoke', [key.key_id], 'key.revoked')
  await change('key revoke', [key.key_id])
  const webhook = ['--webhook', 'https://example.com/hooks/upstream-secret']
  const alert = await change('alert add', ['ada@example.com', 'daily_spend', ...webhook], 'alert.added')
  await change('alert remove', [alert.id], 'alert.removed')
  const grant = ['ada@example.com', '25', '--paid', '--reason', 'invoice', '--ref', 'invoice-1', '--yes']
  const granted = await change('credit grant', grant, 'credit.granted')
  expect(granted.entries).toMatchObject([
    {
      subject: ada.customer_id,
      detail: { amount_usd: '25.00', ref: 'invoice-1', reason: 'invoice', is_promotion: false },
    },
  ])
  await change('credit grant', grant)
  await change('credit grant', [...grant.slice(0, -3), '--dry-run'])

  // Payments and vouchers.
  await world.pool.query(
    "SELECT start_payment($1, $2, 'manual', 25000000000, 2500, 'usd', true, 'SY-TEST-0001', NULL, NULL, NULL, NULL)",
    [randomUUID(), ada.customer_id],
  )
  await change('payments confirm', ['SY-TEST-0001'], 'payment.confirmed')
  await change('payments confirm', ['SY-TEST-0001'])
  const reverse = ['SY-TEST-0001', '--amount', '10', '--reason', 'sent back']
  const { reversal_id } = await change('payments reverse', reverse, 'payment.refunded')
  await change('payments return', [reversal_id], 'payment.reversal_returned')
  await change('payments reconcile', [], 'payment.reconciled')
  await world.pool.query(
    "SELECT note_payment_difference('stripe', 'ch_1', 'charge', 'unknown_payment', NULL, 'pi_1', 700, 'usd', '2026-11-01')",
  )
  await change('payments accept', ['ch_1', '--note', 'paid back'], 'payment.difference_accepted')
  const vouchers = await change('voucher make', ['5', '--count', '2'], 'voucher.made', 'voucher.made')
  const [voucher] = vouchers.output as { code: string; voucher_id: string }[]
  expect(JSON.stringify(vouchers.entries)).not.toContain(voucher!.code)
  await change('voucher revoke', [voucher!.voucher_id], 'voucher.revoked')

  // Hosters.
  await change('hoster add', ['acme', 'https://models.acme.dev/v1', '--key', 'upstream-secret'], 'hoster.applied')
  const figures = ['--input', '0.2', '--output', '0.6', '--context-tokens', '1000', '--max-output-tokens', '100']
  await change('hoster price', ['acme', 'acme-7b', ...figures], 'price.changed')
  await change('hoster activate', ['acme'], 'hoster.state_changed')
  await change('hoster suspend', ['acme'], 'hoster.state_changed')
  await change('hoster resume', ['acme'], 'hoster.state_changed')
  await change('hoster trust', ['acme', '0.9'], 'hoster.changed')
  await change('hoster contract', ['acme'], 'hoster.changed')
  const hosterKey = await change('hoster key issue', ['acme', '--name', 'gpu'], 'hoster.key_issued')
  await change('hoster key revoke', ['acme', hosterKey.key_id], 'hoster.key_revoked')
  await change('hoster key set', ['acme', '--key', 'upstream-secret'], 'hoster.changed')
  await change('hoster invite', ['acme', 'bob@example.com'], 'hoster.member_invited')
  await change('hoster apply', ['garage', '--owner', 'member@example.com'], 'hoster.applied')
  await change('hoster approve', ['garage', '--override', '--reason', 'known'], 'hoster.state_changed')
  await change('hoster apply', ['attic', '--owner', 'member@example.com'], 'hoster.applied')
  await change('hoster reject', ['attic', '--reason', 'no'], 'hoster.state_changed')
  await world.pool.query(
    "UPDATE hoster SET state = 'suspended', quarantined_at = now(), quarantine_reason = 'x' WHERE name = 'garage'",
  )
  await change('hoster release', ['garage', '--reason', 'a fault of ours'], 'hoster.state_changed')
  await change('hoster retire', ['garage', '--reason', 'closed'], 'hoster.state_changed')
  await change('model approve', ['other-7b', '--reason', 'public'], 'model.approved')
  await change('model refuse', ['other-7b', '--reason', 'not so public'], 'model.refused')

  // Providers.
  const file = join(mkdtempSync(join(tmpdir(), 'switchyard-audit-doors-')), 'providers.yaml')
  const provider = (output: number) => `endpoints:
  - { name: p, kind: cloud, base_url: "https://x.example.com/v1", api_key: upstream-secret, models: [{ id: m, price_per_million_usd: { input: 1, output: ${output} } }] }`
  writeFileSync(file, provider(2))
  await change('config apply', [file, '--dry-run'])
  await change('config apply', [file], 'provider.created')
  writeFileSync(file, provider(3))
  const applied = await change('config apply', [file, '--reason', 'dearer'], 'provider.changed')
  expect(applied.entries).toMatchObject([{ subject: 'p', detail: { reason: 'dearer', version: 2 } }])
  await change('config apply', [file])
  rmSync(dirname(file), { recursive: true })

  // Prices of customers.
  await change('price-group set', ['partners', '--percent', '-10', '--model', 'm=-25'], 'price_group.created')
  const raised = await change(
    'price-group set',
    ['partners', '--percent', '5', '--reason', 'costs'],
    'price_group.changed',
  )
  expect(raised.entries).toMatchObject([
    {
      subject: 'partners',
      detail: {
        reason: 'costs',
        version: 2,
        changes: [
          { of: 'percent', before: '-10', after: '5' },
          { of: 'm', after: null },
        ],
      },
    },
  ])
  await change('price-group assign', ['partners', '--tier', 'scale'], 'price_group.assigned')
  await change('price-group assign', ['none', '--tier', 'scale'], 'price_group.assigned')
  await change('price-group remove', ['partners'], 'price_group.removed')

  // Payouts.
  const { id: acme } = await one<{ id: string }>("SELECT hoster_id AS id FROM hoster WHERE name = 'acme'")
  const payer = await world.addCustomer(0n)
  await grantCredit(world.pool, { customerId: payer, amountNanos: 100n * USD, ref: 'invoice 2', reason: 'paid' })
  const past = Date.now() - 40 * DAY_MS
  for (let n = 0; n < 50; n++) await world.charge(payer, acme, past, USD, 'acme-7b')
  const request = await world.charge(payer, acme, Date.now(), USD, 'acme-7b')
  await change('ledger refund', [request, '--reason', 'cut off'], 'request.refunded')
  const account = ['acme', '--holder', 'Acme GmbH', '--account', 'DE89 3704 0044 0532 0130 00']
  await change('payout account', account, 'hoster.payout_change_requested')
  await applyPayoutChanges(world.pool, Date.now() + 4 * DAY_MS)
  const batch = async () => (await change('payout prepare', [], 'payout.prepared')).batch_id
  await change('payout cancel', [await batch()], 'payout.cancelled')
  const batchId = await batch()
  await change('payout approve', [batchId], 'payout.approved')
  await change('payout settle', [batchId], 'payout.settled')
  await change('payout settle', [batchId, '--paid', 'all'], 'payout.paid')
  await change('payout freeze', ['acme', '--reason', 'checks'], 'hoster.payouts_frozen')
  await change('payout release', ['acme', '--reason', 'fine'], 'hoster.payouts_released')
  const taken = await change('payout claw-back', ['acme', '0.1', '--fraud', '--reason', 'x'], 'hoster.clawed_back')
  await change('payout give-back', [taken.clawback_id, '--reason', 'y'], 'hoster.clawback_returned')
  for (let n = 0; n < 3; n++) await world.charge(payer, acme, past, USD, 'acme-7b')
  await change('payout account', ['acme', '--customer', payer], 'hoster.payout_change_requested')
  await applyPayoutChanges(world.pool, Date.now() + 4 * DAY_MS)
  await change('payout move', ['acme', '--amount', '0.30'], 'hoster.earnings_moved')
  const related = await world.addCustomer(USD)
  await world.pool.query("INSERT INTO person (person_id, email) VALUES ($1, 'both@example.com')", [related])
  await world.pool.query("INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $1, 'owner')", [related])
  await world.pool.query("INSERT INTO hoster_member (hoster_id, person_id, role) VALUES ($1, $2, 'owner')", [
    acme,
    related,
  ])
  await world.charge(related, acme, Date.now(), USD)
  await world.prepare(Date.now() + 40 * DAY_MS, { minNanos: USD / 2n })
  const { id: review } = await one<{ id: string }>('SELECT review_id AS id FROM promotion_review')
  await change('payout review', [review, '--release', 'a fair'], 'payout.promotion_released')

  await change('customer delete', ['ada@example.com', '--yes'], 'customer.deleted')

  expect([...done, ...Object.keys(exempt)].sort()).toEqual(commandsOf(createProgram()).sort())
  expect(await world.violations()).toEqual([])
})
