# Drives headless Chromium over its DevTools pipe; to be sourced by bash. browser_open FOLDER starts it with its files in
# FOLDER, browser_close ends it; page_open, page_run and the others act on its one page. Returns 2 where there is no Chromium.

browser_open() {
  local folder=$1 chromium
  chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || return 2
  mkfifo "$folder/to" "$folder/from"
  "$chromium" --headless --no-sandbox --disable-gpu --window-size=1280,900 --user-data-dir="$folder/profile" \
    --remote-debugging-pipe about:blank 3<"$folder/to" 4>"$folder/from" >"$folder/browser.log" 2>&1 &
  browser_process=$!
  exec {browser_to}>"$folder/to" {browser_from}<"$folder/from"
  browser_calls=0 browser_session=
  local target
  target=$(browser_call Target.createTarget '"url":"about:blank"') || return 1
  ((++browser_calls))
  target=${target#*\"targetId\":\"}
  browser_session=$(browser_call Target.attachToTarget "\"targetId\":\"${target%%\"*}\",\"flatten\":true") || return 1
  ((++browser_calls))
  browser_session=${browser_session#*\"sessionId\":\"}
  browser_session=${browser_session%%\"*}
}

browser_close() {
  kill "$browser_process" 2>/dev/null || true
  wait "$browser_process" 2>/dev/null || true
}

# browser_call METHOD PARAMETERS: prints the answer, one line of JSON. Runs in a subshell, so its caller counts the calls.
browser_call() {
  local id=$((browser_calls + 1)) answer
  printf '{"id":%d,"method":"%s","params":{%s}%s}\0' "$id" "$1" "${2:-}" "${browser_session:+,\"sessionId\":\"$browser_session\"}" >&"$browser_to"
  while IFS= read -r -d '' -t 120 answer <&"$browser_from"; do
    case $answer in "{\"id\":$id,"*) printf '%s' "$answer"; return ;; esac
  done
  echo "devtools: no answer to $1" >&2
  return 1
}

# json_string TEXT: the text as a JSON string.
json_string() { printf '"%s"' "$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | awk '{ printf "%s%s", line, $0; line = "\\n" }')"; }

page_call() {
  page_answer=$(browser_call "$@") || return 1
  ((++browser_calls))
}

# page_run JAVASCRIPT: sets page_result to the value (a promise is awaited) as JSON; an exception is an error.
page_run() {
  page_call Runtime.evaluate "\"expression\":$(json_string "$1"),\"awaitPromise\":true,\"returnByValue\":true" || return 1
  case $page_answer in *'"exceptionDetails"'*) echo "devtools: $page_answer" >&2; return 1 ;; esac
  page_result=${page_answer#*\"value\":}
  page_result=${page_result%\}\},\"sessionId\"*}
  case $page_answer in *'"type":"number"'*) page_result=${page_result%%,*} ;; esac
}

# page_open URL [READY]: goes to the address and waits until READY (JavaScript) holds.
page_open() {
  page_call Page.navigate "\"url\":$(json_string "$1")" || return 1
  for _ in $(seq 200); do
    page_result=
    page_run "(() => { try { return !!(${2:-true}); } catch { return false; } })()" 2>/dev/null || true
    if [ "$page_result" = true ]; then return; fi
    sleep 0.2
  done
  page_run "document.body.innerText" || true
  echo "devtools: $1 is not ready: $page_result" >&2
  return 1
}

page_size() { page_call Emulation.setDeviceMetricsOverride "\"width\":$1,\"height\":$2,\"deviceScaleFactor\":1,\"mobile\":false"; }

# page_scheme light|dark|print
page_scheme() {
  local media="" scheme=$1
  if [ "$1" = print ]; then media=print scheme=light; fi
  page_call Emulation.setEmulatedMedia "\"media\":\"$media\",\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"$scheme\"}]"
}

# page_picture FILE.png: what the window shows.
page_picture() {
  page_call Page.captureScreenshot "" || return 1
  page_answer=${page_answer#*\"data\":\"}
  printf '%s' "${page_answer%%\"*}" | base64 -d >"$1"
}

# page_key KEY [MODIFIERS [CODE]]: presses a key, 2 for Ctrl, 8 for Shift, as in DevTools.
page_key() {
  local key="\"key\":\"$1\",\"code\":\"$1\",\"modifiers\":${2:-0},\"windowsVirtualKeyCode\":${3:-0}"
  page_call Input.dispatchKeyEvent "\"type\":\"rawKeyDown\",$key" && page_call Input.dispatchKeyEvent "\"type\":\"keyUp\",$key"
}

# axe_file: prints the path of axe-core's axe.min.js, which finds what people with disabilities cannot use. $HEED_AXE may name it;
# else it is fetched once, from the package axe-playwright-python of PyPI. Fails where it cannot be had.
axe_file() {
  local version=0.1.8 kept=${XDG_CACHE_HOME:-$HOME/.cache}/heed folder
  if [ -n "${HEED_AXE:-}" ]; then printf '%s' "$HEED_AXE"; return; fi
  kept+=/axe-$version.min.js
  if [ ! -s "$kept" ]; then
    command -v pip3 >/dev/null && command -v unzip >/dev/null || return 1
    folder=$(mktemp -d)
    if timeout 60 pip3 download --quiet --no-deps --retries 1 --timeout 10 --dest "$folder" "axe-playwright-python==$version" >/dev/null 2>&1 &&
      unzip -p "$folder"/*.whl '*/axe.min.js' >"$folder/axe.min.js" 2>/dev/null && [ -s "$folder/axe.min.js" ]; then
      mkdir -p "${kept%/*}"
      mv "$folder/axe.min.js" "$kept"
    fi
    rm -rf "$folder"
    [ -s "$kept" ] || return 1
  fi
  printf '%s' "$kept"
}

# page_axe: sets page_result to what axe-core finds wrong on the page, as a JSON string: empty if nothing. Says once where it is skipped.
page_axe() {
  page_result='""'
  if [ -z "${axe_path+known}" ]; then
    axe_path=$(axe_file) || { axe_path=; echo "devtools: skipped: axe-core cannot be had here (pip3, unzip and a network, or HEED_AXE=axe.min.js)"; }
  fi
  if [ -z "$axe_path" ]; then return; fi
  page_run "typeof axe" || return 1
  if [ "$page_result" = '"undefined"' ]; then page_run "$(cat "$axe_path"); typeof axe" || return 1; fi
  page_run "axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations.map(one => one.id + ': ' + one.nodes.slice(0, 4).map(node => node.target.join(' ')).join(', ')).join('; '))"
}
