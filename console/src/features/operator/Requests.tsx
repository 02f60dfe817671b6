import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, Select, TextInput } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useSearch } from '@tanstack/react-router'
import { requestLogQuery } from '../../api/operator-queries.ts'
import { durationText } from '../../format/number-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Filters } from '../../parts/Filters.tsx'
import { failureWords } from '../../parts/failure-words.ts'
import { Loaded } from '../../parts/Loaded.tsx'
import { Charge } from '../../parts/Money.tsx'
import { outcomeWords } from '../../parts/outcome-words.ts'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import styles from './operator.module.css'
import { type RequestLogSearch, readRequestLogSearch, requestOutcomes } from './operator-search.ts'

const texts = [
  ['id', t`Request id`],
  ['key', t`Key id`],
  ['label', t`Label`],
  ['model', t`Model`],
  ['server', t`Server`],
  ['error', t`Text of the error`],
] as const
/** An attempt that was not sent is no failure of its server, so no request is searched by it. */
const failureOptions = Object.entries(failureWords)
  .filter(([value]) => value !== 'not_sent')
  .map(([value, label]) => ({ value, label }))
const outcomeOptions = requestOutcomes.map(value => ({ value, label: outcomeWords[value] }))

/** The requests of all customers, the newest first. */
export function Requests() {
  const search = readRequestLogSearch(useSearch({ strict: false }))
  const log = useInfiniteQuery(requestLogQuery(search))
  const navigate = useNavigate()
  const set = (change: Partial<Record<keyof RequestLogSearch, string | null>>) =>
    void navigate({
      to: '/operator/requests',
      search: readRequestLogSearch({ ...search, ...change }),
      replace: true,
    })
  return (
    <Page title={t`Requests`}>
      <Filters set={Object.values(search).filter(value => value !== undefined).length} className={styles.filters}>
        {texts.map(([name, label]) => (
          <TextInput
            key={`${name} ${search[name] ?? ''}`}
            label={label}
            type="search"
            defaultValue={search[name] ?? ''}
            onBlur={event => set({ [name]: event.currentTarget.value.trim() })}
            onKeyDown={event => event.key === 'Enter' && set({ [name]: event.currentTarget.value.trim() })}
          />
        ))}
        <Select
          label={t`Ended`}
          clearable
          data={outcomeOptions}
          value={search.outcome ?? null}
          onChange={outcome => set({ outcome })}
        />
        <Select
          label={t`An attempt failed`}
          clearable
          data={failureOptions}
          value={search.failure ?? null}
          onChange={failure => set({ failure })}
        />
      </Filters>
      {search.error !== undefined && (
        <p
          className={styles.hint}
        >{t`The texts of errors are kept for 7 days: of each server, one failure a second. The newest 10,000 are searched.`}</p>
      )}
      <Panel>
        <Loaded query={log} height={480}>
          {({ pages }) => {
            const rows = pages.flatMap(({ data }) => data)
            const lookedBackTo = pages.at(-1)?.looked_back_to ?? null
            return (
              <>
                {rows.length === 0 ? (
                  <EmptyState text={t`No such request.`} />
                ) : (
                  <DataTable
                    label={t`Requests`}
                    hasMore={log.hasNextPage}
                    rows={rows}
                    keyOf={({ id }) => id}
                    columns={[
                      {
                        title: t`Time`,
                        place: 'name',
                        cell: ({ id, started_at }) => (
                          <Link to="/operator/requests/$requestId" params={{ requestId: id }} search={search}>
                            <When at={started_at} />
                          </Link>
                        ),
                        sortBy: ({ started_at }) => started_at,
                      },
                      {
                        title: t`Customer`,
                        cell: ({ customer }) => (
                          <Link to="/operator/customers/$customerId" params={{ customerId: customer.id }}>
                            {customer.email ?? customer.id.slice(0, 8)}
                          </Link>
                        ),
                      },
                      { title: t`Key`, cell: ({ key, label }) => label ?? key?.name ?? '–' },
                      { title: t`Model`, cell: ({ model }) => model, sortBy: ({ model }) => model },
                      { title: t`Server`, cell: ({ server }) => server ?? '–', sortBy: ({ server }) => server },
                      {
                        title: t`Ended`,
                        cell: ({ success, outcome, failures, error }) => (
                          <span className={styles.stacked}>
                            <State state={success ? 'ok' : 'danger'}>{outcomeWords[outcome]}</State>
                            {failures.length > 0 && (
                              <span className={styles.hint}>
                                {failures.map(failure => failureWords[failure] ?? failure).join(', ')}
                              </span>
                            )}
                            {error !== null && <span className={styles.error}>{error}</span>}
                          </span>
                        ),
                      },
                      {
                        title: t`Took`,
                        align: 'right',
                        cell: each => durationText(each.latency_ms),
                        sortBy: ({ latency_ms }) => latency_ms,
                      },
                      {
                        title: 'USD',
                        align: 'right',
                        place: 'figure',
                        cell: ({ charged_usd: usd }) => <Charge usd={usd} />,
                        sortBy: ({ charged_usd }) => charged_usd,
                      },
                    ]}
                  />
                )}
                {lookedBackTo !== null && (
                  <p className={styles.hint}>
                    <Trans>
                      Searched back to <When at={lookedBackTo} />.
                    </Trans>
                  </p>
                )}
                {log.hasNextPage && (
                  <div className={styles.more}>
                    <Button
                      variant="default"
                      loading={log.isFetchingNextPage}
                      onClick={() => void log.fetchNextPage()}
                    >{t`Show older requests`}</Button>
                  </div>
                )}
              </>
            )
          }}
        </Loaded>
      </Panel>
      <Outlet />
    </Page>
  )
}
