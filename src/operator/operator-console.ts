import type { Readable } from 'node:stream'
import type { Pool } from '../base/db/pool.ts'
import type { Acting } from '../base/domain/acting.ts'
import type { MemberRole } from '../base/domain/member-role.ts'
import type { Nanos } from '../base/domain/money.ts'
import type { Offer } from '../base/domain/offer.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import type { Invitations, MadeInvitation } from '../identity/people/invitations.ts'
import type { SignedIn } from '../identity/people/sessions.ts'
import { decideModel } from '../market/marketplace/decide-model.ts'
import type { CreditEvidence } from '../money/ledger/credit-evidence.ts'
import type { OpenContent } from '../money/usage/content/read-content.ts'
import { latencyReportOfAll } from '../money/usage/latency-report.ts'
import { reportSql } from '../money/usage/report-sql.ts'
import type { ShownContent } from '../wire/api/activity.ts'
import type { LatencyReport } from '../wire/api/console-data.ts'
import type { RequestedKey, RequestedKeyChange } from '../wire/api/key-request.ts'
import type { Key } from '../wire/api/keys.ts'
import type { CustomerChange, GrantOrder, RefundRequest } from '../wire/api/operator/customer-changes.ts'
import type {
  CustomerDetail,
  CustomerPage,
  CustomersQuery,
  FoundKey,
  GrantResult,
  GrantShown,
  IssuedCustomerKey,
  RefundResult,
} from '../wire/api/operator/customers.ts'
import type { Found } from '../wire/api/operator/find.ts'
import type { AuditLogPage, AuditLogState, LogQuery } from '../wire/api/operator/log.ts'
import type { OperatorMoney } from '../wire/api/operator/money.ts'
import type { Overview } from '../wire/api/operator/overview.ts'
import type { OperatorReceipt } from '../wire/api/operator/receipt.ts'
import type { RequestLog, RequestLogQuery } from '../wire/api/operator/requests.ts'
import type {
  HosterReview,
  OperatorHosters,
  OperatorModels,
  PriceVersions,
  parseHosterChange,
  parseModelDecision,
  parsePriceChange,
  UnapprovedModels,
} from '../wire/api/operator/supply.ts'
import type { OperatorSystem } from '../wire/api/operator/system.ts'
import type { OperatorUsage, UsageEventFormat, UsageEventSpan, UsageSpan } from '../wire/api/operator/usage.ts'
import type { StatusReport } from '../wire/api/status.ts'
import type { AlarmRules } from './alarms/alarms.ts'
import { addCustomer, changeCustomer, inviteMember } from './change-customer.ts'
import {
  changeCustomerKey,
  findCustomerKey,
  issueCustomerKey,
  revokeCustomerKey,
  setKeyPaused,
} from './customer-keys.ts'
import { createUsageEventsExport } from './export-usage-events.ts'
import { find } from './find.ts'
import { decideGrant, grant } from './grants.ts'
import { listCustomers } from './list-customers.ts'
import { listGrants } from './list-grants.ts'
import { readMoney } from './money.ts'
import { type Actor, act } from './operator-action.ts'
import { readOperatorReceipt } from './operator-receipt.ts'
import { readOverview } from './overview.ts'
import { checkLog, readLog } from './read-log.ts'
import { refund } from './refund.ts'
import { customerOfKey, readRequestLog } from './request-log.ts'
import { showCustomer, type Tiers } from './show-customer.ts'
import { readStatus } from './status-report.ts'
import {
  changeHoster,
  listModels,
  listPriceVersions,
  setPrice,
  showHosters,
  showHosterToReview,
  showUnapprovedModels,
} from './supply.ts'
import { readSystem } from './system.ts'
import { operatorUsageCsv, readOperatorUsage } from './usage.ts'
import { viewContent } from './view-content.ts'
import { createVisits, type Visit } from './visits.ts'

/**
 * What an operator reads and changes in the console. Every change is in the audit log, in the same transaction. All
 * methods reject with ApiError: `database_unavailable` when PostgreSQL cannot be reached, and what the functions behind
 * them name.
 */
export interface OperatorConsole {
  overview(): Promise<Overview>
  listCustomers(query: CustomersQuery, after: string | null): Promise<CustomerPage>
  showCustomer(customerId: string, viewerId: string): Promise<CustomerDetail>
  noteVisit(signedIn: SignedIn, visit: Visit, address: string): Promise<void>
  addCustomer(actor: Actor, order: { email: string; tier: string | undefined }): Promise<string>
  changeCustomer(actor: Actor, customerId: string, change: CustomerChange): Promise<void>
  /** @param name of the operator, for the mail */
  inviteMember(
    actor: Actor,
    invitation: { customerId: string; email: string; role: MemberRole },
    name: string,
  ): Promise<MadeInvitation>
  issueKey(actor: Actor, customerId: string, order: RequestedKey): Promise<IssuedCustomerKey>
  /** Changes what the change names. Rejects with `not_found`, `invalid_value` or `role_not_allowed`. */
  changeKey(actor: Actor, order: { customerId: string; keyId: string; change: RequestedKeyChange }): Promise<Key>
  setKeyPaused(actor: Actor, order: { customerId: string; keyId: string; isPaused: boolean }): Promise<void>
  revokeKey(actor: Actor, customerId: string, keyId: string): Promise<void>
  /** Finds the key that this text is. Rejects with `not_found`. */
  findKey(key: string): Promise<FoundKey>
  grant(actor: Actor, customerId: string, order: GrantOrder): Promise<GrantResult>
  listGrants(state: 'waiting' | 'all', viewerId: string): Promise<GrantShown[]>
  decideGrant(actor: Actor, grantId: string, isApproved: boolean): Promise<{ state: 'granted' | 'rejected' }>
  refund(actor: Actor, customerId: string, order: RefundRequest): Promise<RefundResult>
  /** Finds what has this text in its name, or as its id. */
  find(text: string): Promise<Found>
  money(): Promise<OperatorMoney>
  log(query: LogQuery, before: string | null): Promise<AuditLogPage>
  /** `isWhole`: all entries, not only the newest. */
  checkLog(isWhole: boolean): Promise<AuditLogState>
  system(): Promise<OperatorSystem>
  models(): Promise<OperatorModels>
  priceVersions(modelId: string | null): Promise<PriceVersions>
  unapprovedModels(): Promise<UnapprovedModels>
  decideModel(actor: Actor, decision: ReturnType<typeof parseModelDecision>): Promise<void>
  hosters(): Promise<OperatorHosters>
  /** Rejects with `hoster_not_found`. */
  hoster(hosterId: string): Promise<HosterReview>
  changeHoster(actor: Actor, hosterId: string, change: ReturnType<typeof parseHosterChange>): Promise<void>
  setPrice(actor: Actor, hosterId: string, change: ReturnType<typeof parsePriceChange>): Promise<{ version: number }>
  usage(span: UsageSpan): Promise<OperatorUsage>
  /** The latency and the failures of the newest requests of all customers. */
  latency(): Promise<LatencyReport>
  requests(query: RequestLogQuery): Promise<RequestLog>
  /** Everything known about one request; null when there is no such request. */
  receipt(requestId: string): Promise<OperatorReceipt | null>
  /** Shows what was recorded of a request, and notes the access. Rejects with `request_not_found`. */
  viewContent(actor: Actor, requestId: string): Promise<ShownContent>
  /** Returns whose key it is; null: nobody's. */
  customerOfKey(keyId: string): Promise<string | null>
  /** The state of models and servers, for the status page. */
  status(): Promise<StatusReport>
  /** Pieces of a CSV document, one for each day. */
  exportUsage(span: UsageSpan): Promise<AsyncGenerator<string>>
  /** Also rejects with `too_many_concurrent_requests`, and with `changed_meanwhile` for a missing archive. */
  exportUsageEvents(acting: Acting, span: UsageEventSpan, format: UsageEventFormat): Promise<Readable>
}

export function createOperatorConsole(deps: {
  readonly pool: Pool
  /** For changes of customers and their money: see Database in start/compose. */
  readonly deskPool: Pool
  readonly evidence: CreditEvidence
  readonly clock: Clock
  readonly offers: () => readonly Offer[]
  readonly tiers: Tiers
  readonly signup: { readonly tier: string; readonly creditNanos: Nanos }
  readonly alarmRules: AlarmRules
  readonly version: string
  /** The settings to show, without secrets. */
  readonly settings: () => OperatorSystem['settings']
  /** Whether the status page names the servers. */
  readonly showsServerNames: boolean
  readonly openContent: OpenContent
  readonly invitations: Invitations
  /** The directory of the files of archived months. */
  readonly usageArchives: () => string
}): OperatorConsole {
  const { pool, deskPool, evidence, clock, tiers, signup } = deps
  const reports = reportSql(pool)
  const visits = createVisits({ sql: reports, clock })
  const nowMs = () => clock.epochMs()
  return {
    overview: () => readOverview(reports, deps.offers(), deps.alarmRules, nowMs()),
    listCustomers: (query, after) => listCustomers(reports, query, after, nowMs()),
    showCustomer: (customerId, viewerId) => showCustomer(reports, { customerId, viewerId, nowMs: nowMs() }, tiers),
    noteVisit: visits.note,
    addCustomer: (actor, order) => addCustomer(deskPool, actor, order, { signup, tiers: tiers.names() }),
    changeCustomer: (actor, customerId, change) => changeCustomer(deskPool, actor, customerId, change, tiers.names()),
    inviteMember: (actor, invitation, name) =>
      inviteMember(deps.invitations, actor, invitation, { name, nowMs: nowMs() }),
    issueKey: (actor, customerId, order) => issueCustomerKey(deskPool, actor, customerId, order),
    changeKey: (actor, order) => changeCustomerKey(deskPool, actor, order),
    setKeyPaused: (actor, order) => setKeyPaused(deskPool, actor, order),
    findKey: key => findCustomerKey(reports, key),
    revokeKey: (actor, customerId, keyId) => revokeCustomerKey(deskPool, actor, customerId, keyId),
    grant: (actor, customerId, order) => grant(deskPool, evidence, actor, customerId, order),
    listGrants: (state, viewerId) => listGrants(reports, { state, viewerId }),
    decideGrant: (actor, grantId, isApproved) => decideGrant(deskPool, evidence, actor, grantId, isApproved),
    refund: (actor, customerId, order) => refund(deskPool, actor, customerId, order),
    status: () => readStatus(reports, deps.offers(), { showsNames: deps.showsServerNames, nowMs: nowMs() }),
    find: text => find(reports, text, deps.offers()),
    money: () => readMoney(reports, nowMs()),
    log: (query, before) => readLog(reports, query, before),
    checkLog: isWhole => checkLog(reports, isWhole),
    system: () =>
      readSystem(reports, {
        version: deps.version,
        settings: deps.settings(),
        rules: deps.alarmRules,
        nowMs: nowMs(),
      }),
    models: () => listModels(reports, deps.offers(), nowMs()),
    priceVersions: modelId => listPriceVersions(reports, modelId),
    unapprovedModels: () => showUnapprovedModels(reports),
    decideModel: (actor, { modelId, state, reason }) =>
      act(pool, actor, sql => decideModel(sql, { modelId, state, reason, personId: actor.personId }, actor.address)),
    hosters: () => showHosters(reports),
    hoster: hosterId => showHosterToReview(reports, hosterId),
    changeHoster: (actor, hosterId, change) => changeHoster(pool, actor, hosterId, change),
    setPrice: (actor, hosterId, change) => setPrice(pool, actor, hosterId, change),
    usage: span => readOperatorUsage(reports, span),
    latency: () => latencyReportOfAll(reports),
    requests: query => readRequestLog(reports, query),
    receipt: requestId => readOperatorReceipt(reports, requestId),
    viewContent: (actor, requestId) => viewContent(pool, deps.openContent, actor, { customerId: null, requestId }),
    customerOfKey: keyId => customerOfKey(reports, keyId),
    exportUsage: span => operatorUsageCsv(reports, span),
    exportUsageEvents: createUsageEventsExport(reports, deps.usageArchives),
  }
}
