import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import type { OperatorSettings as Shown } from '#api/operator/settings.ts'
import { operatorSettingsQuery } from '../../api/operator-queries.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { saidText } from '../../texts/code-text.ts'
import styles from './operator.module.css'
import { useMayOperate } from './use-may-operate.ts'

const dialogs = () => import('./SettingDialogs.tsx')
const SettingDialog = lazy(async () => ({ default: (await dialogs()).SettingDialog }))
const TierDialog = lazy(async () => ({ default: (await dialogs()).TierDialog }))

type ShownSetting = Shown['fields'][number]

const sections = [
  ['account_tiers', t`Tiers`],
  ['signup', t`New customers`],
  ['accounts', t`Free credit`],
  ['payments', t`Top-ups`],
  ['platform', t`Fee`],
  ['payouts', t`Payouts`],
  ['limits', t`Limits`],
  ['models', t`Requests`],
  ['routing', t`Routing`],
  ['hosters', t`Hosters`],
  ['alarms', t`Alarms`],
  ['status', t`Status page`],
] as const

const origins = { file: t`from switchyard.yaml`, managed: t`changed here`, default: t`default` } as const

/** The sections with their settings, without those that have none. */
function found(fields: readonly ShownSetting[]) {
  return sections
    .map(([section, title]) => ({ section, title, rows: fields.filter(({ key }) => key.startsWith(`${section}.`)) }))
    .filter(({ rows }) => rows.length > 0)
}

/** The settings of the installation that can change while the gateway runs. */
export function OperatorSettings() {
  const mayOperate = useMayOperate()
  const settings = useQuery(operatorSettingsQuery)
  const [asked, setAsked] = useState<ShownSetting | 'tier' | null>(null)
  const [search, setSearch] = useState('')
  const close = () => setAsked(null)
  const isFound = ({ key, about, about_codes }: ShownSetting) =>
    `${key} ${key.replaceAll(/[._]/g, ' ')} ${saidText(about, about_codes)}`
      .toLowerCase()
      .includes(search.trim().toLowerCase())
  return (
    <Page title={t`Settings`} actions={mayOperate && <Button onClick={() => setAsked('tier')}>{t`Add a tier`}</Button>}>
      <Loaded query={settings} height={640}>
        {({ version, reason, changed_at, fields }) => (
          <>
            <p className={styles.hint}>
              <Trans>
                All nodes use a change within about a second. Running requests keep what they began with. What
                switchyard.yaml declares is changed there.
                {changed_at !== null && (
                  <Trans>
                    {' '}
                    Version {version}, <When at={changed_at} />: {reason}
                  </Trans>
                )}
              </Trans>
            </p>
            <TextInput
              label={t`Find a setting`}
              description={t`A part of its name, or of what it does.`}
              type="search"
              value={search}
              onChange={event => setSearch(event.currentTarget.value)}
            />
            {found(fields.filter(isFound)).map(({ section, title, rows }) => (
              <Panel key={section} title={title}>
                <DataTable
                  label={title}
                  rows={rows}
                  keyOf={({ key }) => key}
                  columns={[
                    {
                      title: t`Setting`,
                      place: 'name',
                      cell: ({ key }) => <code>{key.slice(section.length + 1)}</code>,
                      sortBy: ({ key }) => key,
                    },
                    { title: t`What it does`, cell: ({ about, about_codes }) => saidText(about, about_codes) },
                    {
                      title: t`From`,
                      cell: ({ origin }) => (
                        <State state={origin === 'default' ? 'off' : 'ok'}>{origins[origin]}</State>
                      ),
                    },
                    {
                      title: t`Value`,
                      align: 'right',
                      place: 'figure',
                      cell: ({ value }) => (value === null ? '–' : <code>{value}</code>),
                    },
                    {
                      title: '',
                      place: 'actions',
                      cell: field =>
                        mayOperate &&
                        field.origin !== 'file' && (
                          <Button
                            size="xs"
                            variant="default"
                            aria-label={t`Change ${field.key}`}
                            onClick={() => setAsked(field)}
                          >{t`Change`}</Button>
                        ),
                    },
                  ]}
                />
              </Panel>
            ))}
            {!fields.some(isFound) && <EmptyState text={t`No setting is called that.`} />}
            <Suspense>
              {asked === 'tier' && <TierDialog version={version} onClose={close} />}
              {asked !== null && asked !== 'tier' && (
                <SettingDialog key={asked.key} setting={asked} version={version} onClose={close} />
              )}
            </Suspense>
          </>
        )}
      </Loaded>
    </Page>
  )
}
