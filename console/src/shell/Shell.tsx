import { useDisclosure, useHotkeys } from '@mantine/hooks'
import { Link, type LinkProps, Outlet, useLocation } from '@tanstack/react-router'
import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react'
import { MenuIcon } from '../parts/icons.tsx'
import { AccountMenu } from './AccountMenu.tsx'
import { Offline } from './Offline.tsx'
import { Switcher } from './Switcher.tsx'
import styles from './shell.module.css'

// Nothing of the first screen.
const ConfirmIdentity = lazy(async () => ({ default: (await import('./ConfirmIdentity.tsx')).ConfirmIdentity }))
const MenuDrawer = lazy(async () => ({ default: (await import('./MenuDrawer.tsx')).MenuDrawer }))
const FindPage = lazy(async () => ({ default: (await import('./FindPage.tsx')).FindPage }))

export interface NavItem {
  readonly name: string
  readonly icon: ReactNode
  readonly link: Pick<LinkProps, 'to' | 'params'>
  /** Only the address itself is this page, not those below it. */
  readonly isExact?: true
}

/**
 * The frame of all screens: navigation on the left, or a bar of five at the bottom of a phone.
 *
 * @param props.top the right end of the header
 * @param props.notice a line above every screen
 */
export function Shell({ items, top, notice }: { items: readonly NavItem[]; top?: ReactNode; notice?: ReactNode }) {
  const [isMenuOpen, menu] = useDisclosure()
  // Once opened, it stays loaded.
  const [hasMenu, setMenu] = useState(false)
  const [isFinding, find] = useDisclosure()
  useHotkeys([['mod+K', find.open]])
  const { pathname } = useLocation()
  // Both close when a link in them was followed.
  useEffect(() => {
    menu.close()
    find.close()
  }, [pathname])
  return (
    <div className={styles.shell}>
      <a href="#main" className={styles.skip}>
        Skip to the content
      </a>
      <div className={styles.side}>
        <Link to="/" className={styles.brand}>
          <img src="/assets/icon.svg" alt="" width="24" height="24" />
          Switchyard
        </Link>
        <Switcher />
        <nav className={styles.nav} aria-label="Pages">
          {items.map(item => (
            <NavLink key={item.name} item={item} className={styles.navLink} />
          ))}
        </nav>
        <div className={styles.sideFoot}>
          <button type="button" className={styles.navLink} onClick={find.open} aria-haspopup="dialog">
            Find <kbd className={styles.hotkey}>Ctrl K</kbd>
          </button>
          <a href="/docs" className={styles.navLink}>
            API reference
          </a>
          <AccountMenu />
        </div>
      </div>
      <div>
        {top && <header className={styles.top}>{top}</header>}
        {notice && (
          <div className={styles.notice} role="note">
            {notice}
          </div>
        )}
        <Offline />
        <main id="main">
          <Suspense>
            <Outlet />
          </Suspense>
        </main>
      </div>
      <nav className={styles.bottom} aria-label="Main pages">
        {items.slice(0, 4).map(item => (
          <NavLink key={item.name} item={item} className={styles.bottomLink} />
        ))}
        <button
          type="button"
          className={styles.bottomLink}
          onClick={() => {
            setMenu(true)
            menu.open()
          }}
          aria-haspopup="dialog"
        >
          <MenuIcon />
          More
        </button>
      </nav>
      <Suspense>
        {hasMenu && (
          <MenuDrawer isOpen={isMenuOpen} onClose={menu.close}>
            <div className={styles.nav}>
              {items.slice(4).map(item => (
                <NavLink key={item.name} item={item} className={styles.navLink} />
              ))}
              <a href="/docs" className={styles.navLink}>
                API reference
              </a>
            </div>
            <Switcher />
            <AccountMenu />
          </MenuDrawer>
        )}
      </Suspense>
      <Suspense>
        <ConfirmIdentity />
        <FindPage items={items} isOpen={isFinding} onClose={find.close} />
      </Suspense>
    </div>
  )
}

function NavLink({ item, className }: { item: NavItem; className: string | undefined }) {
  return (
    <Link {...item.link} className={className} activeOptions={{ exact: item.isExact ?? false, includeSearch: false }}>
      {item.icon}
      {item.name}
    </Link>
  )
}
