import type { FastifyRequest } from 'fastify'
import { type Caller, plainAccess } from '../../base/domain/caller.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type HosterRight, hasHosterRight, hosterRolesWith } from '../../base/domain/hoster-access.ts'
import { type CustomerRight, hasRight, type MemberRole, rolesWith } from '../../base/domain/member-role.ts'
import type { FindPrices } from '../../base/domain/price-group.ts'
import { headerValues } from '../../base/runtime/header-list.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { UUID } from '../../base/runtime/uuid.ts'
import type { People } from '../../identity/people/people.ts'
import type { SignedIn, VisitedCustomer } from '../../identity/people/sessions.ts'
import type { Visit } from '../../operator/visits.ts'
import type { MinuteLimiter } from '../../request/limits/minute-limiter.ts'
import type { Endpoint } from '../endpoint.ts'
import type { ConsoleCookie } from './console-cookie.ts'
import { requireConfirmation } from './require-confirmation.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the guard on endpoints that need a session. */
    signedIn: SignedIn | null
  }
}

export interface ConsoleGuard {
  /**
   * Throws an ApiError unless the request may use the endpoint. Sets `signedIn`, `caller` where a customer is named,
   * and `hoster` where a hoster is.
   */
  check(endpoint: Endpoint, request: FastifyRequest): Promise<void>
}

/** Creates the check of all endpoints with the access `page` or `session`. */
export function createConsoleGuard(deps: {
  readonly people: People
  readonly cookie: ConsoleCookie
  /** Counts requests of people apart from those of programs. */
  readonly limiter: MinuteLimiter
  /** The role of a person at a hoster: null for strangers, undefined when there is no such hoster. */
  readonly hosterRoleOf: (hosterId: string, personId: string) => Promise<MemberRole | null | undefined>
  readonly limitsOf: (accountTier: string) => Caller['limits']
  readonly findPrices: FindPrices
  /** Notes that an operator or auditor looked at a customer or hoster, or that a stranger tried to change a hoster. */
  readonly noteVisit: (signedIn: SignedIn, visit: Visit, request: FastifyRequest) => Promise<void>
  readonly clock: Clock
  /** Whether the role on the installation waits for a second factor. */
  readonly needsSecondFactor: (signedIn: SignedIn, request: FastifyRequest) => boolean
}): ConsoleGuard {
  return {
    async check({ access, method, right, hosterRight, installation, needsConfirmation }, request) {
      // A GET changes nothing, and no other site can read its answer.
      if (method !== 'GET') requireOwnPage(request.raw.rawHeaders)
      if (access !== 'session') return
      const token = deps.cookie.read(request.raw.rawHeaders)
      if (token === undefined) throw new ApiError('not_signed_in')
      const customerId = right === undefined ? null : customerIdOf(request)
      const found = await deps.people.find(token, customerId)
      if (found === undefined) throw new ApiError('not_signed_in')
      const { signedIn, customer } = found
      request.signedIn = signedIn
      deps.limiter.take(signedIn.person.personId, 'requests of the console')
      const { personId } = signedIn.person
      const hosterId = hosterRight === undefined ? null : hosterIdOf(request)
      const hosterRole = hosterId === null ? undefined : await deps.hosterRoleOf(hosterId, personId)
      const usesInstallationRole =
        installation !== undefined || (customer !== undefined && customer.role === null) || hosterRole === null
      if (usesInstallationRole && deps.needsSecondFactor(signedIn, request)) {
        throw new ApiError('second_factor_required')
      }
      if (installation !== undefined) requireInstallationRole(signedIn, installation)
      if (right !== undefined) {
        const visited = requireRight(signedIn, customer, { right, isRead: method === 'GET' })
        if (visited.role === null)
          await deps.noteVisit(signedIn, { action: 'customer.viewed', subject: visited.customerId }, request)
        const { priceGroup } = visited
        const prices = priceGroup === null ? null : await deps.findPrices(priceGroup)
        request.caller = callerOf(visited, signedIn, deps.limitsOf(visited.accountTier), prices)
      }
      if (hosterId !== null && hosterRight !== undefined) {
        const isRead = method === 'GET'
        if (hosterRole === null && !isRead)
          await deps.noteVisit(signedIn, { action: 'hoster.change_refused', subject: hosterId }, request)
        requireHosterRight(signedIn, hosterRole, { right: hosterRight, isRead })
        if (hosterRole === null) await deps.noteVisit(signedIn, { action: 'hoster.viewed', subject: hosterId }, request)
        request.hoster = { hosterId, keyId: null, personId, scopes: [] }
      }
      if (needsConfirmation === true) requireConfirmation(signedIn, deps.clock.epochMs())
    },
  }
}

function customerIdOf({ params }: FastifyRequest): string {
  const { customer_id: id } = params as { customer_id: string }
  if (!UUID.test(id)) throw new ApiError('customer_not_found')
  return id
}

function hosterIdOf({ params }: FastifyRequest): string {
  const { hoster_id: id } = params as { hoster_id: string }
  if (!UUID.test(id)) throw new ApiError('hoster_not_found')
  return id.toLowerCase()
}

/** An operator or auditor may read everything of every hoster. Operators change hosters under /console/api/operator. */
function requireHosterRight(
  { person }: SignedIn,
  role: MemberRole | null | undefined,
  { right, isRead }: { right: HosterRight; isRead: boolean },
): void {
  const mayRead = person.installationRole !== null
  // Strangers cannot find out which hosters exist here.
  if (role === undefined || (role === null && !mayRead)) throw new ApiError('hoster_not_found')
  if ((isRead && mayRead) || (role !== null && hasHosterRight(role, right))) return
  throw new ApiError('role_not_allowed', {
    message: `Your role does not allow this. It needs the role ${hosterRolesWith(right).join(' or ')}. Ask an owner of this hoster.`,
  })
}

/** Throws `role_not_allowed` unless the person's role on the installation suffices. */
function requireInstallationRole({ person }: SignedIn, needed: 'read' | 'write'): void {
  const role = person.installationRole
  if (role === 'operator' || (role === 'auditor' && needed === 'read')) return
  const roles = needed === 'read' ? 'operator or auditor' : 'operator'
  throw new ApiError('role_not_allowed', {
    message: `Your role does not allow this. It needs the role ${roles} of this installation. Ask an operator.`,
  })
}

/** An operator or auditor may read everything of every customer, and change what the member role allows. */
function requireRight(
  { person }: SignedIn,
  customer: VisitedCustomer | undefined,
  { right, isRead }: { right: CustomerRight; isRead: boolean },
): VisitedCustomer {
  const mayRead = person.installationRole !== null
  // Strangers cannot find out which customers exist.
  if (customer === undefined || (customer.role === null && !mayRead)) throw new ApiError('customer_not_found')
  if ((isRead && mayRead) || (customer.role !== null && hasRight(customer.role, right))) return customer
  const roles = rolesWith(right).join(' or ')
  throw new ApiError('role_not_allowed', {
    message: `Your role does not allow this. It needs the role ${roles}. Ask an owner of this customer.`,
  })
}

function callerOf(
  customer: VisitedCustomer,
  { sessionId }: SignedIn,
  limits: Caller['limits'],
  prices: Caller['prices'],
): Caller {
  return {
    customerId: customer.customerId,
    keyId: sessionId,
    access: { ...plainAccess, mayManage: true },
    email: customer.email,
    accountTier: customer.accountTier,
    sharesRequests: false,
    prices,
    limits: {
      requestsPerMinute: customer.requestsPerMinute ?? limits.requestsPerMinute,
      requestsPerDay: customer.requestsPerDay ?? limits.requestsPerDay,
      dailySpendCapNanos: customer.dailySpendCapNanos ?? limits.dailySpendCapNanos,
    },
  }
}

/**
 * Throws `cross_site_request` unless a page of this server sent the request. Browsers set Sec-Fetch-Site and Origin,
 * and no page can change them. Old browsers and plain HTTP have no Sec-Fetch-Site; then the Origin must name this host.
 */
function requireOwnPage(rawHeaders: readonly string[]): void {
  const [site, ...otherSites] = headerValues(rawHeaders, 'sec-fetch-site')
  if (site === 'same-origin' && otherSites.length === 0) return
  const [origin] = headerValues(rawHeaders, 'origin')
  const [host] = headerValues(rawHeaders, 'host')
  if (site === undefined && origin !== undefined && host !== undefined && hostOf(origin) === host.toLowerCase()) return
  throw new ApiError('cross_site_request')
}

function hostOf(origin: string): string | undefined {
  return URL.parse(origin)?.host
}
