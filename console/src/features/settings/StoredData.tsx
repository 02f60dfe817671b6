import { t } from '@lingui/core/macro'
import { DataExport } from '../../parts/DataExport.tsx'
import { Panel } from '../../parts/Panel.tsx'
import styles from './settings.module.css'

/** Saves what is kept of the person, and of a customer that the person owns. */
export function StoredData({ customerId = null }: { customerId?: string | null }) {
  return (
    <Panel title={t`What is kept`}>
      <div className={styles.block}>
        <p
          className={styles.hint}
        >{t`A file in JSON with everything that this server keeps, except secrets. Ask the operator to erase it.`}</p>
        <DataExport path="person/export" label={t`Save what is kept of you`} />
        {customerId !== null && (
          <DataExport path={`customers/${customerId}/export`} label={t`Save what is kept of this customer`} />
        )}
      </div>
    </Panel>
  )
}
