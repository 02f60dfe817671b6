import { z } from 'zod'
import { installationRoles } from '../../../base/domain/member-role.ts'
import { object } from '../console-body.ts'
import { cursorParameter } from '../cursor.ts'
import { reason } from '../hosters.ts'
import { queryInteger } from '../query-integer.ts'
import { parseStrictBody } from '../strict-body.ts'

// People under /console/api/operator, with blocks and the roles on the installation.

const SEARCH_CHARACTERS_MAX = 254
const searchText = `must be a text of at most ${SEARCH_CHARACTERS_MAX} characters`
const shownPeople = ['all', 'blocked', 'roles', 'invited'] as const

/** The key of a cursor: the id of the last person of the page. */
export const peopleCursor = /^[0-9a-f-]{36}$/

export const peopleQuery = z.object({
  search: z
    .string(searchText)
    .max(SEARCH_CHARACTERS_MAX, searchText)
    .optional()
    .describe('A part of the e-mail address or name.'),
  show: z
    .enum(shownPeople, `must be one of ${shownPeople.join(', ')}`)
    .default('all')
    .describe(
      '`roles`: operators and auditors. `invited`: people that were invited for a role and do not have it yet.',
    ),
  limit: queryInteger({ max: 100, example: 50 }).default(50),
  cursor: cursorParameter(peopleCursor),
})
export type PeopleQuery = z.output<typeof peopleQuery>

const role = z.enum(installationRoles).nullable()

const shownPerson = z.object({
  id: z.string(),
  email: z.string(),
  name: z.string(),
  role: role.describe('The role on the installation.'),
  invited_role: role.describe(
    'The role that an operator has invited the person for, until a change gives one. It counts for 14 days, and while the inviter is an operator.',
  ),
  invited_by: z.string().nullable().describe('E-mail address of that operator.'),
  invited_at: z.string().nullable().describe('When the person accepted.'),
  is_you: z.boolean(),
  is_blocked: z.boolean(),
  is_verified: z.boolean().describe('Whether the person has proved the e-mail address.'),
  has_second_factor: z.boolean(),
  created_at: z.string(),
  last_seen_at: z.string().nullable().describe('Null: no session is open.'),
  customers: z.int().describe('Customers that the person is a member of.'),
  hosters: z.int(),
  keys: z.int().describe('Keys in use that the person made.'),
})
/** @public The console imports it. */
export type PersonShown = z.infer<typeof shownPerson>

export const peoplePage = z
  .object({ data: z.array(shownPerson).describe('The newest person first.'), next_cursor: z.string().nullable() })
  .meta({ id: 'OperatorPeople' })
export type PeoplePage = z.infer<typeof peoplePage>

export const blockResult = z.object({ is_blocked: z.boolean() })

export const roleChanges = z
  .object({
    data: z.array(
      z.object({
        id: z.string(),
        email: z.string(),
        role: role.describe('Null takes the role away.'),
        from: role,
        requested_by: z.string().nullable().describe('E-mail address of the operator.'),
        requested_at: z.string(),
        is_own: z.boolean(),
      }),
    ),
  })
  .meta({ id: 'RoleChanges' })
export type RoleChanges = z.infer<typeof roleChanges>

export const roleResult = z.object({ state: z.enum(['waiting', 'done', 'rejected']) })

const roleText = { error: `one of ${installationRoles.join(', ')}, or null to take the role away` }
const blockRequest = z.strictObject({ reason }, object)
const roleRequest = z.strictObject({ role: z.enum(installationRoles, roleText).nullable() }, object)

// Both throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`.

export function parseBlock(body: Buffer): { reason: string } {
  return parseStrictBody(body, blockRequest, 'a block')
}

export function parseRole(body: Buffer): z.infer<typeof roleRequest> {
  return parseStrictBody(body, roleRequest, 'a role')
}
