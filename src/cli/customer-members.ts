import type { Command } from 'commander'
import { noteAction } from '../base/db/audit-log.ts'
import { transaction } from '../base/db/pool.ts'
import type { LimitReset } from '../base/domain/caller.ts'
import type { MemberRole } from '../base/domain/member-role.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { limitText, type MemberBudget, setMemberLimit } from '../identity/people/member-limits.ts'
import { listMembers } from '../identity/people/members.ts'
import { changedLimit } from '../wire/api/key-request.ts'
import { amountArgument, type Change, changeArgument, emailArgument, limitResetArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import type { Json } from './output.ts'
import { resolveCustomer } from './resolve.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function customerMembersCommand(): Command {
  return createCommand('members', 'List the people of a customer, with their spend limits', [
    'customer members ada@example.com',
    'customer members ada@example.com --json',
  ])
    .argument('<customer>', 'e-mail or id')
    .action(async (emailOrId: string, options) => {
      const session = createSession(options)
      const members = await withDatabase(session, async pool =>
        listMembers(pool, (await resolveCustomer(pool, emailOrId)).customerId, Date.now()),
      )
      session.output.result(members.map(memberJson), memberTable(members, 'Nobody is a member of this customer.'))
    })
}

export function limitMemberCommand(): Command {
  return createCommand(
    'limit-member',
    'Limit what all keys of one person may spend; all nodes see it within two seconds',
    [
      'customer limit-member ada@example.com bob@example.com --limit-usd 20 --limit-reset monthly',
      'customer limit-member ada@example.com bob@example.com --limit-usd none',
    ],
  )
    .argument('<customer>', 'e-mail or id')
    .argument('<member>', 'e-mail of the person', emailArgument)
    .option('--limit-usd <amount>', 'spend limit in USD, or none', changeArgument('none', amountArgument))
    .option('--limit-reset <when>', 'when the spend limit resets: none, daily, weekly or monthly', limitResetArgument)
    .action(async (emailOrId: string, memberEmail: string, options) => {
      const session = createSession(options)
      const { limitUsd, limitReset } = options as { limitUsd?: Change<Nanos>; limitReset?: LimitReset }
      if (limitUsd === undefined && limitReset === undefined) throw new UsageError('Say what to change.')
      const changed = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const { customerId, email } = await resolveCustomer(sql, emailOrId)
          const find = async () =>
            (await listMembers(sql, customerId, Date.now())).find(
              member => member.email.toLowerCase() === memberEmail.toLowerCase(),
            )
          const before = await find()
          if (before === undefined) throw new Failure(`${memberEmail} is no member of ${email}.`)
          if (
            limitReset !== undefined &&
            limitReset !== 'none' &&
            (limitUsd ? limitUsd.to : before.limitNanos) === null
          )
            throw new UsageError('--limit-reset needs a spend limit: add --limit-usd.')
          const limit = changedLimit(before, {
            ...(limitUsd !== undefined && { limitNanos: limitUsd.to }),
            ...(limitReset !== undefined && { limitReset }),
          })!
          await setMemberLimit(sql, customerId, before.personId, limit)
          const after = (await find())!
          await noteAction(sql, {
            action: 'member.limit_changed',
            personId: null,
            subject: after.email,
            customerId,
            detail: { from: limitText(before), to: limitText(after) },
            address: null,
          })
          return after
        }),
      )
      session.output.result(memberJson(changed), memberTable([changed], ''))
    })
}

type Shown = MemberBudget & { readonly personId: string; readonly email: string; readonly role: MemberRole }

function memberJson(member: Shown): Record<string, Json> {
  return {
    person_id: member.personId,
    email: member.email,
    role: member.role,
    limit_usd: member.limitNanos === null ? null : usdText(member.limitNanos),
    limit_reset: member.limitReset,
    spent_usd: member.limitNanos === null ? null : usdText(member.spentNanos),
    limit_resets_at: member.resetsAt?.toISOString() ?? null,
  }
}

function memberTable(members: readonly Shown[], emptyText: string): string {
  return table(
    ['e-mail', 'role', 'limit', 'spent USD'],
    members.map(member => [
      member.email,
      member.role,
      limitText(member),
      member.limitNanos === null ? '' : usdText(member.spentNanos),
    ]),
    emptyText,
  )
}
